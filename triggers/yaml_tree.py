"""YAML as plain values that remember where they were written; what YAML lets slip is refused."""

import re
from typing import Any, TypeGuard

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from .declaration_problem import ERROR, WARNING, PathPart, Problem
from .yaml_scalars import Plain

PLAIN, QUOTED, NESTED = "plain", "quoted", "nested"
MOST_ALIASED = 200_000
"""How many nodes aliases may stand for in one file, so that a small text cannot grow without end."""
DEEPEST = 64

Path = tuple[PathPart, ...]

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_TAGGED = re.compile(r"(?:&\S+\s+)?!")


class Mapped(dict[str, Any]):
    """A mapping; `pairs` holds the nodes of each key and value."""

    __slots__ = ("node", "pairs")
    node: Node
    pairs: dict[str, tuple[Node, Node]]


class Listed(list[Any]):
    """A list; `node` is where it was written."""

    __slots__ = ("node",)
    node: Node


class _Ours:
    """Leaves all scalars as text: which ones are plain is all that is asked of the composer."""

    def resolve(self, kind: type[Node], value: object, implicit: Any) -> str:  # noqa: ARG002
        if kind is not ScalarNode:
            return NESTED
        return PLAIN if implicit[0] else QUOTED

    def descend_resolver(self, parent: object, index: object) -> None:
        """Nothing to follow: no path decides on a tag."""

    def ascend_resolver(self) -> None:
        """Nothing to follow."""


class PurePythonComposer(_Ours, Reader, Scanner, Parser, Composer):
    """The slow way, where PyYAML was built without libyaml."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class LibyamlComposer(_Ours, CParser):
        """libyaml's composer, about fifteen times as fast."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)

    COMPOSER: type[Any] = LibyamlComposer
else:
    COMPOSER = PurePythonComposer


class Document:
    """One file's text, its values (`tree`), and the problems that were found while reading it."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.tree: Any = None
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = _BREAK.split(self.text)
        return self._lines

    def at_node(self, node: Node, code: str, message: str, *, hint: str = "", path: Path = ()) -> Problem:
        """A problem at where `node` was written; a warning if its code begins with W."""
        start, end = node.start_mark, node.end_mark
        source = self.line(start.line)
        stop = end.column if end.line == start.line else len(source.rstrip())
        width = max(1, stop - start.column)
        place = (self.file, start.line + 1, start.column + 1)
        return Problem(_severity(code), code, message, *place, hint, dotted(path), source, width)

    def at_path(self, path: Path, code: str, message: str, *, hint: str = "", key: bool = False) -> Problem:
        """A problem at the value (or the key) that `path` leads to, as far as that exists."""
        node = self._find(path, key)
        if node is None:
            return Problem(_severity(code), code, message, self.file, hint=hint, path=dotted(path))
        return self.at_node(node, code, message, hint=hint, path=path)

    def line(self, number: int) -> str:
        return self.lines[number] if number < len(self.lines) else ""

    def _find(self, path: Path, key: bool) -> Node | None:
        node, value = self.root, self.tree
        for index, part in enumerate(path):
            last = index == len(path) - 1
            if isinstance(value, Mapped) and part in value.pairs:
                pair = value.pairs[str(part)]
                node = pair[0] if last and key else pair[1]
                value = value[str(part)]
            elif isinstance(value, Listed) and isinstance(part, int) and part < len(value):
                node, value = value.node.value[part], value[part]
            else:
                break
        return node


def _severity(code: str) -> str:
    return WARNING if code.startswith("W") else ERROR


def dotted(path: Path) -> str:
    """`triggers.nightly.tags[0]`."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return written.removeprefix(".")


def build(document: Document, root: Node) -> None:
    """Turn the composed nodes into the document's tree, noting every problem on the way."""
    document.root = root
    document.tree = _Builder(document).value(root, 0)


class _Builder:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.aliases = "*" in document.text and "&" in document.text
        self.tags = "!" in document.text
        self.seen: set[int] = set()
        self.open: set[int] = set()
        self.aliased = 0
        self.names: list[PathPart] = []

    def value(self, node: Node, depth: int) -> Any:
        if self.tags:
            self._refuse_tag(node)
        if self.aliases and not self._may_enter(node):
            return None
        if isinstance(node, ScalarNode):
            return Plain(node.value) if node.tag == PLAIN else node.value
        if depth == DEEPEST:
            self._wrong(node, "E010", f"nested deeper than {DEEPEST} levels", "flatten it")
            return None
        self.open.add(id(node))
        built = self._mapping(node, depth) if isinstance(node, MappingNode) else self._list(node, depth)
        self.open.discard(id(node))
        return built

    def _list(self, node: Node, depth: int) -> Listed:
        listed = Listed()
        listed.node = node
        for index, item in enumerate(node.value):
            self.names.append(index)
            listed.append(self.value(item, depth + 1))
            self.names.pop()
        return listed

    def _mapping(self, node: Node, depth: int) -> Mapped:
        mapped = Mapped()
        pairs: dict[str, tuple[Node, Node]] = {}
        mapped.node, mapped.pairs = node, pairs
        merges: list[tuple[Node, Node]] = []
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._wrong(
                    key, "E010", "a key must be text, and this one is a list or a mapping", "quote it"
                )
                continue
            if key.value == "<<" and key.tag == PLAIN:
                merges.append((key, value))
                continue
            if self.tags:
                self._refuse_tag(key)
            text = key.value
            self.names.append(text)
            if text in pairs:
                self._twice(text, pairs[text][0], key)
            else:
                pairs[text] = (key, value)
                mapped[text] = self.value(value, depth + 1)
            self.names.pop()
        for key, value in merges:
            self._merge(mapped, key, value, depth)
        return mapped

    def _merge(self, mapped: Mapped, key: Node, value: Node, depth: int) -> None:
        """Take over the pairs of `<<: *other`; a key that both sides give differently is an error."""
        for source in value.value if isinstance(value, SequenceNode) else [value]:
            other = self.value(source, depth + 1)
            if not isinstance(other, Mapped):
                self._wrong(
                    key, "E009", "`<<` takes a mapping or a list of mappings", "name an anchored mapping"
                )
                continue
            for text, pair in other.pairs.items():
                if text not in mapped.pairs:
                    mapped.pairs[text] = pair
                    mapped[text] = other[text]
                elif not _alike(mapped.pairs[text][1], pair[1]):
                    here, there = mapped.pairs[text][0].start_mark.line + 1, pair[0].start_mark.line + 1
                    self._wrong(
                        mapped.pairs[text][0],
                        "E009",
                        f"`{text}` is set on line {here} and, through `<<`, differently on line {there}",
                        "keep one of the two",
                    )

    def _twice(self, text: str, first: Node, second: Node) -> None:
        lines = f"on line {first.start_mark.line + 1} and again on line {second.start_mark.line + 1}"
        self._wrong(second, "E004", f"the key `{text}` is given {lines}", "keep one, or rename one")

    def _may_enter(self, node: Node) -> bool:
        """Count what aliases repeat, and refuse one that leads back into itself."""
        if id(node) in self.open:
            self._wrong(node, "E006", "this mapping or list contains itself through an alias", "write it out")
            return False
        if id(node) not in self.seen:
            self.seen.add(id(node))
            return True
        self.aliased += 1
        if self.aliased == MOST_ALIASED:
            self._wrong(
                node, "E006", f"aliases repeat more than {MOST_ALIASED:,} values", "write less with aliases"
            )
        return self.aliased < MOST_ALIASED

    def _refuse_tag(self, node: Node) -> None:
        start = node.start_mark.index
        if node.tag in (PLAIN, QUOTED, NESTED) and not _TAGGED.match(self.document.text, start):
            return
        if isinstance(node, ScalarNode) and self.document.text[start : start + 1] in "\"'":
            return
        self._wrong(node, "E005", "YAML tags (`!…`) are refused", "write the plain value")

    def _wrong(self, node: Node, code: str, message: str, hint: str) -> None:
        path = tuple(self.names)
        self.document.problems.append(self.document.at_node(node, code, message, hint=hint, path=path))


def _alike(one: Node, other: Node) -> bool:
    if one is other:
        return True
    both = isinstance(one, ScalarNode) and isinstance(other, ScalarNode)
    return both and (one.tag, one.value) == (other.tag, other.value)


def is_mapped(value: object) -> TypeGuard[Mapped]:
    """Whether a value of a tree is a mapping."""
    return isinstance(value, Mapped)
