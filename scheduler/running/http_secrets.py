"""What was expanded from the node's environment for a request, so that no text that is kept shows it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from ...triggers.declaration_variables import VariableError, expand
from ...triggers.request_template import variables_in

HIDDEN: Final = "***"
_SHORTEST: Final = 6
"""Shorter values are no secrets, and hiding them would make every text unreadable."""


class Secrets:
    """Hides values in texts, also as a url or JSON writes them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = set()
        for value in values:
            for part in {value, *value.split()}:  # of `Bearer x` a server may echo only x
                if len(part) >= _SHORTEST:
                    forms |= {form for text in _read(part) for form in _written(text)}
        self._forms = sorted(forms, key=len, reverse=True)

    @classmethod
    def of(cls, declared: Iterable[Any], environ: Mapping[str, str]) -> "Secrets":
        """What every `${…}` in these JSON values means here."""
        values = []
        for variable in {found for value in declared for found in variables_in(value)}:
            try:
                values.append(str(expand(variable, environ)))
            except VariableError:
                continue  # whoever needs it says so
        return cls(values)

    def hide(self, text: str) -> str:
        """`text` with every one of them left out."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text


def _read(text: str) -> set[str]:
    """The text, and what a server makes of it where it is encoded for a url already."""
    return {each for each in (text, unquote(text), unquote_plus(text)) if len(each) >= _SHORTEST}


def _written(text: str) -> set[str]:
    return {text, quote(text, safe=""), quote(text), quote_plus(text), *_in_json(text)}


def _in_json(text: str) -> set[str]:
    """As JSON has it, and as JSON has a text that is JSON itself: an echo of a body in a body."""
    once = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return once | {json.dumps(form)[1:-1] for form in once}
