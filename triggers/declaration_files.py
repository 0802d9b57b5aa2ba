"""The files of a declaration: those named, those in a named folder, and those that they include."""

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any

from .declaration_keys import ClusterKeys, DefaultsKeys, FileKeys
from .declaration_merge import merged, retry_policy
from .declaration_problem import ERROR, Problem
from .declaration_shape import not_a_mapping, read_shape
from .yaml_scalars import is_null
from .yaml_syntax import read_document
from .yaml_tree import Document, Mapped, is_mapped

_SUFFIXES = (".yaml", ".yml")


@dataclass(eq=False)
class Source:
    """One file that was read; `defaults` are its own, completed by those of the file that includes it."""

    document: Document
    digest: str = ""
    said: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    own_defaults: dict[str, Any] = field(default_factory=dict)
    parent: "Source | None" = None
    _defaults: dict[str, Any] | None = None

    def beside(self, content: bytes) -> None:
        """Another file whose content belongs to this one: what it holds is part of the revision."""
        self.digest = sha256(f"{self.digest} {sha256(content).hexdigest()}".encode()).hexdigest()

    @property
    def file(self) -> str:
        return self.document.file

    @property
    def defaults(self) -> dict[str, Any]:
        if self._defaults is None:
            weaker = self.parent.defaults if self.parent is not None else {}
            self._defaults = merged(weaker, self.own_defaults)
        return self._defaults

    def section(self, name: str) -> Mapped | None:
        """The mapping `jobs` or `triggers` of this file; None where there is none."""
        tree = self.document.tree
        if not is_mapped(tree) or name not in tree or is_null(tree[name]):
            return None
        section = tree[name]
        if is_mapped(section):
            return section
        self.document.problems.append(not_a_mapping(section, self.document, (name,)))
        return None


class Sources:
    """All files of one declaration, each read once, in the order they were met."""

    def __init__(self) -> None:
        self.found: dict[str, Source] = {}
        self.problems: list[Problem] = []
        self._open: list[str] = []

    def add_path(self, path: FilePath) -> None:
        """A file, or all YAML files of a folder."""
        if not path.is_dir():
            self._add_file(str(path))
            return
        try:
            names = sorted(name for name in os.listdir(path) if name.endswith(_SUFFIXES) and name[0] != ".")
        except OSError as error:
            self._unreadable(str(path), error)
            return
        if not names:
            hint = "name a file, or put one ending in .yaml there"
            self.problems.append(
                Problem(ERROR, "E001", "this folder holds no YAML file", str(path), hint=hint)
            )
        for name in names:
            self._add_file(os.path.join(path, name))

    def add_text(self, text: str, file: str) -> None:
        """A text that stands for the content of `file`."""
        self._read(os.path.realpath(file), file, text.encode("utf-8", "surrogatepass"), None)

    def _add_file(self, file: str, parent: Source | None = None) -> None:
        real = os.path.realpath(file)
        if real in self.found:
            self._met_again(self.found[real], parent)
            return
        try:
            content = FilePath(file).read_bytes()
        except OSError as error:
            self._unreadable(file, error)
            return
        self._read(real, file, content, parent)

    def _met_again(self, source: Source, parent: Source | None) -> None:
        if parent is None or source.parent is parent:
            return
        if source.parent is None:
            source.parent = parent
            return
        message = f"{source.file} is included here and by {source.parent.file}"
        hint = "include it once"
        self.problems.append(parent.document.at_path(("include",), "E030", message, hint=hint))

    def _unreadable(self, file: str, error: OSError) -> None:
        reason = (
            "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        )
        hint = "give the path with -f" if isinstance(error, FileNotFoundError) else "check its permissions"
        self.problems.append(Problem(ERROR, "E001", f"cannot be read: {reason}", file, hint=hint))

    def _read(self, real: str, file: str, content: bytes, parent: Source | None) -> None:
        try:
            document = read_document(file, content.decode("utf-8-sig", "strict"))
        except UnicodeDecodeError as error:
            message = f"not UTF-8 text (byte {error.start})"
            self.problems.append(Problem(ERROR, "E001", message, file, hint="save it as UTF-8"))
            return
        source = Source(document, sha256(content).hexdigest(), parent=parent)
        self.found[real] = source
        self._open.append(real)
        if document.root is not None and not is_null(document.tree):
            self._read_top(source)
        self._open.pop()

    def _read_top(self, source: Source) -> None:
        document, tree = source.document, source.document.tree
        if not is_mapped(tree):
            read_shape(FileKeys, tree, document, ())
            return
        apart = ("jobs", "triggers", "defaults", "cluster")
        top = Mapped({key: value for key, value in tree.items() if key not in apart})
        source.said = read_shape(FileKeys, top, document, ())
        if "qsched" not in tree:
            hint = "begin the file with `qsched: 1`"
            problem = document.at_path((), "E013", "the format version is missing", hint=hint)
            document.problems.append(replace(problem, width=1))
        if "defaults" in tree:
            source.own_defaults = read_shape(DefaultsKeys, tree["defaults"], document, ("defaults",))
            if not retry_policy(source.own_defaults.get("retry"), document, ("defaults",))[1]:
                del source.own_defaults["retry"]
        if "cluster" in tree:
            source.cluster = read_shape(ClusterKeys, tree["cluster"], document, ("cluster",))
        for index, pattern in enumerate(source.said.get("include", ())):
            self._include(source, pattern, index)

    def _include(self, source: Source, pattern: str, index: int) -> None:
        folder = os.path.dirname(source.file)
        matches = sorted(glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True))
        files = [match for match in matches if os.path.isfile(match)]
        document, path = source.document, ("include", index)
        if not files:
            message = f"`{pattern}` matches no file beside {source.file}"
            document.problems.append(document.at_path(path, "E030", message, hint="correct it, or remove it"))
        for file in files:
            real = os.path.realpath(file)
            if real == self._open[-1] and glob.has_magic(pattern):
                continue  # `*.yaml` beside the others does not mean the file itself
            if real in self._open:
                message = f"{source.file} includes {file}, which includes it in turn"
                hint = "remove one of the two includes"
                document.problems.append(document.at_path(path, "E030", message, hint=hint))
            else:
                self._add_file(file, source)


def revision(sources: Sequence[Source]) -> str:
    """Fingerprint of what the files hold, whatever their names and order."""
    return sha256("\n".join(sorted(source.digest for source in sources)).encode()).hexdigest()[:32]
