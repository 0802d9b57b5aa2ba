"""Declarations as YAML text: what would be read as something else than text stands in quotes."""

from collections.abc import Mapping
from typing import Any

import yaml

from ...triggers.yaml_scalars import OLD_BOOLEANS, resolve

_WIDTH = 1 << 20


def declaration_text(document: Mapping[str, Any]) -> str:
    """The document as YAML that our own reader (1.2, core rules) and others' (1.1) read alike."""
    return "\n".join(
        yaml.dump({key: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
        if isinstance(value, Mapping)
        else yaml.dump(
            {key: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
        ).rstrip()
        for key, value in document.items()
    )


class _Dumper(yaml.SafeDumper):
    """Without aliases, which would be read but help nobody, and with lists within their keys."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text and not any(line != line.rstrip() for line in text.split("\n")):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _misread(text) else None)


def _misread(text: str) -> bool:
    """Whether the unquoted text would be another value, or looks as if it were."""
    if text in OLD_BOOLEANS or any(c in text for c in "*?:#@%&!|>'\""):
        return True
    try:
        return not isinstance(resolve(text), str) if text else True
    except ValueError:
        return True


def _mapping(dumper: yaml.SafeDumper, said: Mapping[str, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", said.items())


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)
