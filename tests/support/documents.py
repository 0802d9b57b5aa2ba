"""The code blocks of the documents, and a small shell that runs their console blocks as a reader would.

A comment before a block says what becomes of it: `<!-- file: NAME -->` puts it into the document's folder, `<!-- run -->`
runs it there (`<!-- run: postgresql -->`: with a private server in place of the one it names).
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .command_line import START, clean_environment
from .waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
WRITTEN_POSTGRESQL = "postgresql://qsched@127.0.0.1/qsched"
"""What the documents write where a PostgreSQL is needed."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>(?:run|file)(?:: (?P<value>[^\n]+?))?) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PATIENCE = 60.0


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
    postgresql: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    nodes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def does(self, block: Block) -> None:
        """Write the block's file, or run it and compare what it says."""
        if block.file is not None:
            (self.folder / block.file).write_text(block.text)
        elif block.kind == "python":
            ran = self._run([sys.executable, "-c", block.text])
            assert ran.returncode == 0, f"{block.place}: {ran.stdout}"
        else:
            for command, expected in commands(block.text):
                self._types(block.place, command, expected)

    def leaves(self) -> None:
        """End every node that still runs."""
        for child in self.nodes:
            if child.poll() is None:
                child.terminate()
        for child in self.nodes:
            child.wait(timeout=30)

    def _types(self, place: str, command: str, expected: str) -> None:
        if self.postgresql is not None:
            command = command.replace(WRITTEN_POSTGRESQL, self.postgresql)
        if found := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.variables[found[1]] = found[2]
        elif command.endswith("&"):
            self._begins(shlex.split(command[:-1]))
        elif found := re.fullmatch(r"kill %(\d+)", command):
            running = [child for child in self.nodes if child.poll() is None]
            child = running[int(found[1]) - 1]
            child.terminate()
            assert child.wait(timeout=30) == 0, f"{place}: `{command}` ended with {child.returncode}"
        else:
            ran = self._run(["sh", "-c", f"{self._shell()}\n{command}"])
            assert matches(expected, ran.stdout), (
                f"{place}: `{command}` is said to print\n{expected}\nand prints\n{ran.stdout}"
            )

    def _begins(self, words: list[str]) -> None:
        """A node in the background; the next command is typed once it is ready."""
        assert words[:2] == ["qsched", "node"], f"only nodes run in the background, not {words}"
        log = self.folder / f"node{len(self.nodes)}.log"
        with log.open("wb") as written:
            self.nodes.append(
                subprocess.Popen(
                    [sys.executable, "-c", START, *words[1:]],
                    cwd=self.folder,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=written,
                )
            )
        wait_until(lambda: "node.ready" in log.read_text(), f"a node to be ready ({log})")

    def _run(self, argv: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )

    def _shell(self) -> str:
        return f'qsched() {{ {shlex.quote(sys.executable)} -c {shlex.quote(START)} "$@"; }}'

    def _environment(self) -> dict[str, str]:
        return clean_environment(**self.variables) | {"PYTHONPATH": str(self.folder), "HOME": os.devnull}


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
