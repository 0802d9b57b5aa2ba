"""Reading a YAML text, and saying what is wrong with one that is not YAML in words that help."""

import re
from typing import Any

import yaml

from .collector import collector_paused
from .declaration_problem import ERROR, Problem
from .yaml_tree import COMPOSER, Document, build

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KEY = re.compile(r"""^(\s*)(?:-\s+)?(["']?)([^\s"'{}\[\],#][^"'{}\[\],#]*?)\2\s*:(?:\s|$)""")
_INNER_KEY = re.compile(r"""[{,]\s*(["']?)([^\s"'{}\[\],#:]+)\1\s*:\s*$""")
_BLOCK_KEY = re.compile(r"""(?:^|[\s{,])(["']?)([^\s"'{}\[\],#:]+)\1\s*:\s*$""")
_FLOW_END = re.compile(r"\s*(?:[}\]]|,\s*[\w-]+\s*:|\s#)")
_BLOCK_END = re.compile(r"\s*(?:\s#|$)")
_ALIAS = re.compile(r"\*[^\s,\[\]{}]*")
_SCHEDULE_KEYS = ("cron", "quartz")
_READ_AS = {
    "*": "an alias",
    "&": "an anchor",
    "@": "a reserved sign",
    "`": "a reserved sign",
    "%": "a directive",
    "?": "the mark of a key",
    "!": "a tag",
    "|": "a block of text",
    ">": "a block of text",
    ",": "a separator",
    "-": "a list",
}


def read_document(file: str, text: str) -> Document:
    """The text as a Document, whose `problems` say what is wrong; no tree where nothing could be read."""
    document = Document(file, text.removeprefix("\ufeff"))
    if (strange := _UNPRINTABLE.search(document.text)) is not None:
        document.problems.append(_unprintable(document, strange.start()))
        return document
    try:
        with collector_paused():
            loader = COMPOSER(document.text)
            if loader.check_node():
                root = loader.get_node()
                if loader.check_node():
                    document.problems.append(_several(document, loader.get_node()))
                build(document, root)
    except yaml.MarkedYAMLError as error:
        document.problems.append(_explain(document, error))
    except RecursionError:
        document.problems.append(
            Problem(ERROR, "E002", "nested too deeply to be read", file, hint="flatten it")
        )
    except yaml.YAMLError as error:
        document.problems.append(Problem(ERROR, "E002", f"not YAML: {error}", file, hint="correct the text"))
    return document


def _several(document: Document, second: Any) -> Problem:
    message = "a second document begins here, and a file is one document"
    return document.at_node(second, "E007", message, hint="remove the `---`, or split the file in two")


def _unprintable(document: Document, index: int) -> Problem:
    from_start = document.text[:index]
    line = len(Document("", from_start).lines)
    source = document.line(line - 1)
    column = index - (len(from_start) - len(Document("", from_start).lines[-1])) + 1
    message = f"the character U+{ord(document.text[index]):04X} cannot stand in YAML"
    shown = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", source)
    return Problem(ERROR, "E002", message, document.file, line, column, "remove it", source=shown)


def _explain(document: Document, error: yaml.MarkedYAMLError) -> Problem:
    problem, context = str(error.problem or ""), str(error.context or "")
    mark, begin = error.problem_mark, error.context_mark
    if mark is None:
        return Problem(ERROR, "E002", f"not YAML: {problem}", document.file, hint="correct the text")
    if begin is not None and _points_back(problem, context):
        mark = begin
    line, column = mark.line, mark.column
    source = document.line(line)
    if "\t" in source[: len(source) - len(source.lstrip())]:
        at = source.index("\t")
        return _at(document, (line, at), "E003", "a tab cannot indent YAML", "indent with blanks")
    if (unquoted := _unquoted(document, line, column)) is not None:
        return unquoted
    if "undefined alias" in problem:
        name = _ALIAS.match(source, column)
        hint = "quote it if it is text, or anchor the value it means"
        return _at(
            document, (line, column), "E006", f"the alias {name[0] if name else '*'} stands for nothing", hint
        )
    if not source.strip() and not any(later.strip() for later in document.lines[line:]):
        line = max((at for at, text in enumerate(document.lines) if text.strip()), default=0)
        column = len(document.line(line))
        return _at(document, (line, column), "E002", "the text ends inside a list or mapping", "close it")
    message, hint = _reworded(problem, context, source)
    return _at(document, (line, column), "E002", message, hint)


def _points_back(problem: str, context: str) -> bool:
    """Whether the interesting place is where the thing began, not where the parser gave up."""
    return (
        "scanning an a" in context  # an alias or an anchor
        or "simple key" in context
        or ("quoted scalar" in context and "stream" in problem)
        or ("flow" in context and "node content" not in problem)
    )


def _reworded(problem: str, context: str, source: str) -> tuple[str, str]:
    if "could not find expected ':'" in problem:
        key, colon, _ = source.strip().partition(":")
        if colon and key and "{" not in key:
            return (
                f"`{source.strip()}` is not a key with a value",
                f"write a blank after the colon: `{key}: …`",
            )
        return f"`{source.strip()}` is not a key with a value", "write `key: value`"
    if "mapping values are not allowed" in problem:
        return "a `:` where no key can stand", "quote a text that holds `: `, or correct the indentation"
    if "quoted scalar" in context and "stream" in problem:
        return "this quote is never closed", "close it"
    if "scalar" in context and ("escape" in problem or "hexdecimal" in problem or "hexadecimal" in problem):
        return (
            "this `\\` begins no escape that YAML knows",
            "write \\\\ for a backslash, or use single quotes",
        )
    if "flow sequence" in context or "flow mapping" in context:
        sign = "[" if "sequence" in context else "{"
        if "${" in source:
            return f"this `{sign}` is not closed as it should be", 'quote what holds `${…}`: "${VAR}"'
        return f"this `{sign}` is not closed as it should be", "check commas, quotes and closing signs"
    if "block" in context or "block" in problem:
        return "the indentation does not fit what stands above", "align the keys of one mapping"
    return f"not YAML: {problem}", "correct the text, or quote the value"


def _unquoted(document: Document, line: int, column: int) -> Problem | None:
    """`cron: */5 * * * *`, `cron: @daily`, `x: ? …`: a value that begins with a sign of YAML's own."""
    source = document.line(line)
    sign = source[column : column + 1]
    before = source[:column]
    key = _BLOCK_KEY.search(before)
    if key is None or sign not in _READ_AS:
        return None
    name = key[2]
    if sign == "*" and name not in _SCHEDULE_KEYS and re.match(r"\*[\w-]+\s*(?:[,}#].*)?$", source[column:]):
        return None  # an honest alias
    flow = _INNER_KEY.search(before) is not None
    value = source[column:]
    end = (_FLOW_END if flow else _BLOCK_END).search(value)
    value = value[: end.start()].rstrip() if end else value.rstrip()
    owner = _owner(document, line, before, flow)
    message = f"YAML reads the `{sign}` of `{name}` as {_READ_AS[sign]}, not as text"
    if owner:
        message += f", in {owner}"
    path = f"{owner}.{name}" if owner else name
    hint = f"quote it: {name}: {_quoted(value)}"
    return Problem(
        ERROR, "E008", message, document.file, line + 1, column + 1, hint, path, source, len(value) or 1
    )


def _quoted(value: str) -> str:
    return f"'{value}'" if '"' in value or "\\" in value else f'"{value}"'


def _owner(document: Document, line: int, before: str, flow: bool) -> str:
    """The keys above a line by their indentation, which is all that a text that is no YAML has."""
    names: list[str] = []
    indent = len(before) - len(before.lstrip())
    if flow and (outer := _KEY.match(document.line(line))) is not None:
        names.append(outer[3])
    elif flow:
        indent += 1
    for above in range(line - 1, -1, -1):
        found = _KEY.match(document.line(above))
        if found is not None and len(found[1]) < indent:
            names.append(found[3])
            indent = len(found[1])
        if indent == 0:
            break
    return ".".join(reversed(names))


def _at(document: Document, place: tuple[int, int], code: str, message: str, hint: str) -> Problem:
    line, column = place
    source = document.line(line)
    return Problem(ERROR, code, message, document.file, line + 1, column + 1, hint, source=source)
