"""What an unquoted word means: YAML 1.2's core rules, and nothing of YAML 1.1's surprises."""

import re

Scalar = bool | int | float | str | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NOT_A_NUMBER = re.compile(r"\.(?:nan|NaN|NAN)\Z")
_NUMBER_STARTS = frozenset("+-.0123456789")

OLD_BOOLEANS = frozenset(
    form for word in ("y", "n", "yes", "no", "on", "off") for form in (word, word.title(), word.upper())
)
"""Words that YAML 1.1 read as true or false and 1.2 reads as text."""


class Plain(str):
    """The text of a scalar that was written without quotes, and so may mean something else than text."""

    __slots__ = ()


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar by YAML 1.2's core schema; raises ValueError for an endless number."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    if _OCTAL.match(text):
        return int(text[2:], 8)
    if _HEXADECIMAL.match(text):
        return int(text[2:], 16)
    if _INFINITE.match(text):
        return float("-inf") if text[0] == "-" else float("inf")
    return float("nan") if _NOT_A_NUMBER.match(text) else text


def is_null(value: object) -> bool:
    """Whether a value was left empty or written as YAML's null."""
    return value is None or (isinstance(value, Plain) and _WORDS.get(value, False) is None)
