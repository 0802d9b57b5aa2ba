"""The code blocks of the documents, and a small shell that runs their console blocks as a reader would.

A comment before a block says what becomes of it: `<!-- file: NAME -->` puts it into the document's folder, `<!-- run -->`
runs it there (`<!-- run: postgresql -->`: with a private server in place of the one it names).
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from .command_line import clean_environment
from .ready_made import ReadyMade
from .waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
WRITTEN_POSTGRESQL = "postgresql://qsched@127.0.0.1/qsched"
"""What the documents write where a PostgreSQL is needed."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>(?:run|file)(?:: (?P<value>[^\n]+?))?) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: `place` is file:line."""

    place: str
    kind: str
    text: str
    runs: bool = False
    database: str | None = None
    file: str | None = None


def documents() -> list[Path]:
    """The README and everything under docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document, in its order."""
    text = document.read_text()
    return [_block(document, text, found) for found in _BLOCK.finditer(text)]


def _block(document: Path, text: str, found: re.Match[str]) -> Block:
    verb, _, value = (found["mark"] or "").partition(": ")
    line = text.count("\n", 0, found.start("text")) + 1
    return Block(
        f"{document.name}:{line}",
        found["kind"],
        found["text"],
        runs=verb == "run",
        database=value if verb == "run" and value else None,
        file=value if verb == "file" else None,
    )


@dataclass
class Reader:
    """Somebody who does what a document says, in a folder of their own."""

    folder: Path
    ready: ReadyMade
    postgresql: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, Path] = field(default_factory=dict)
    """Those that run: process id and log."""
    starting: list[Path] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def does(self, block: Block) -> None:
        """Write the block's file, or run it and compare what it says."""
        if block.file is not None:
            (self.folder / block.file).write_text(block.text)
        elif block.kind == "python":
            code, said = self.run(block.text)
            assert code == 0, f"{block.place}: {said}"
        else:
            for command, expected in commands(block.text):
                self._types(block.place, command, expected)
            self._sees_nodes_ready()

    def leaves(self) -> None:
        """End every node that still runs."""
        for pid in self.nodes:
            os.kill(pid, signal.SIGTERM)
        for pid in self.nodes:
            self.ready.wait(pid)
        self.nodes.clear()

    def _types(self, place: str, command: str, expected: str) -> None:
        if self.postgresql is not None:
            command = command.replace(WRITTEN_POSTGRESQL, self.postgresql)
        if command.endswith("&"):
            self._begins(shlex.split(command[:-1]))
            return
        self._sees_nodes_ready()
        if found := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.variables[found[1]] = found[2]
        elif found := re.fullmatch(r"kill %(\d+)", command):
            self._ends(list(self.nodes)[int(found[1]) - 1], place)
        else:
            words = shlex.split(command)
            _, said = self.run(words[1:]) if words[0] == "qsched" else self._shell(command)
            assert matches(expected, said), (
                f"{place}: `{command}` is said to print\n{expected}\nand prints\n{said}"
            )

    def _begins(self, words: list[str]) -> None:
        assert words[:2] == ["qsched", "node"], f"only nodes run in the background, not {words}"
        log = self._output("node")
        self.nodes[self.ready.begin(words[1:], self.folder, self._environment(), log)] = log
        self.starting.append(log)

    def _sees_nodes_ready(self) -> None:
        """A reader types on when the nodes are up."""
        for log in self.starting:
            wait_until(lambda log=log: "node.ready" in log.read_text(), f"a node to be ready ({log})")  # type: ignore[misc]
        self.starting.clear()

    def _ends(self, pid: int, place: str) -> None:
        os.kill(pid, signal.SIGTERM)
        log = self.nodes.pop(pid)
        code = self.ready.wait(pid)
        assert code == 0, f"{place}: a node ended with {code}: {log.read_text()}"

    def run(self, what: Sequence[str] | str) -> tuple[int, str]:
        """Run a command line or a script in the folder; answers its exit code and all it said."""
        output = self._output("said")
        code = self.ready.wait(self.ready.begin(what, self.folder, self._environment(), output))
        return code, output.read_text()

    def _shell(self, command: str) -> tuple[int, str]:
        ran = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return ran.returncode, ran.stdout

    def _output(self, name: str) -> Path:
        made = self.folder / f".{name}-{next(self._numbers)}"
        made.touch()
        return made

    def _environment(self) -> dict[str, str]:
        return clean_environment(**self.variables)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, without a remark behind it, and the lines that follow it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield re.sub(r"\s{2,}# .*", "", command).strip(), expected.strip("\n")


def matches(expected: str, said: str) -> bool:
    """Whether output is what was written: `…` stands for anything in a line, or alone for any number of lines.

    Runs of blanks count as one: how wide a column is depends on what stands in it. Nothing expected fits anything.
    """
    if not expected:
        return True
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in _narrow(line).split("…")) + r"\n"
    return re.fullmatch(pattern, "".join(f"{_narrow(line)}\n" for line in said.splitlines())) is not None


def _narrow(line: str) -> str:
    return re.sub(r" +", " ", line).rstrip()
