"""The documents say what is so: console blocks run and print what they show, YAML passes the check, Python compiles."""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Command
from support.documents import ROOT, WRITTEN_POSTGRESQL, Block, Reader, blocks, commands, documents, matches
from support.ready_made import ReadyMade

DOCUMENTS = documents()
ALL = [block for document in DOCUMENTS for block in blocks(document)]


def of_kind(kind: str) -> list[Block]:
    return [block for block in ALL if block.kind == kind]


@pytest.fixture(scope="module")
def ready() -> Iterator[ReadyMade]:
    """Processes that need no time to load."""
    with ReadyMade() as made:
        yield made


@pytest.fixture
def reader(tmp_path: Path, ready: ReadyMade) -> Iterator[Reader]:
    """A reader whose nodes are ended at the end."""
    reads = Reader(tmp_path, ready)
    yield reads
    reads.leaves()


@pytest.mark.parametrize(
    "document",
    [each for each in DOCUMENTS if any(block.runs for block in blocks(each))],
    ids=lambda p: p.name,
)
def test_what_a_document_does_can_be_done(
    document: Path, reader: Reader, request: pytest.FixtureRequest
) -> None:
    for block in blocks(document):
        if block.database is not None and reader.postgresql is None:
            assert block.database == "postgresql", f"{block.place}: {block.database} is not known here"
            reader.postgresql = str(request.getfixturevalue("postgresql_url"))
        if block.runs or block.file is not None:
            reader.does(block)
    reader.leaves()  # now: the database of its nodes is gone before the reader is


@pytest.mark.parametrize("block", of_kind("yaml"), ids=lambda block: block.place)
def test_a_declaration_in_the_documents_passes_the_check(
    block: Block, qsched: Command, tmp_path: Path
) -> None:
    (tmp_path / "qsched.yaml").write_text(block.text)
    said = qsched("check")
    assert (said.code, said.err) == (0, ""), f"{block.place}: {said.err}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.name)
def test_an_example_passes_the_check(example: Path, qsched: Command) -> None:
    said = qsched("check", "--allow-unset", str(example))
    assert (said.code, said.err) == (0, "")


@pytest.mark.parametrize("block", of_kind("python"), ids=lambda block: block.place)
def test_python_in_the_documents_is_python(block: Block) -> None:
    compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize(
    ("expected", "said", "same"),
    [
        ("a … c", "a   b c\n", True),
        ("a … c", "a b d\n", False),
        ("a\n…\nz", "a\nb\nc\nz\n", True),
        ("a\n…\nz", "a\nz\n", True),
        ("a", "a\nb\n", False),
        ("", "whatever\n", True),
        ("1.5", "125\n", False),
    ],
)
def test_dots_stand_for_what_differs_from_run_to_run(expected: str, said: str, same: bool) -> None:
    assert matches(expected, said) is same


def test_a_block_that_says_something_wrong_fails(reader: Reader) -> None:
    wrong = Block("x.md:1", "console", "$ echo one\ntwo\n", runs=True)
    with pytest.raises(AssertionError, match="is said to print"):
        reader.does(wrong)


def test_a_remark_behind_a_command_is_not_typed() -> None:
    assert list(commands("$ make demo    # half a minute\nout\n$ ls\n")) == [("make demo", "out"), ("ls", "")]


def test_the_documents_have_blocks_of_each_kind_and_run_some() -> None:
    assert {"console", "yaml", "python"} <= {block.kind for block in ALL}
    assert any(block.database == "postgresql" and WRITTEN_POSTGRESQL in block.text for block in ALL)
    assert sum(block.runs for block in of_kind("console")) >= 5


def test_the_example_application_fits_its_declaration(reader: Reader) -> None:
    shutil.copytree(ROOT / "examples", reader.folder, dirs_exist_ok=True)
    reader.does(
        Block(
            "examples",
            "console",
            "$ qsched check --app bookstore.jobs\n1 file: 4 jobs and 5 triggers are right\n",
            True,
        )
    )


def test_the_example_workers_run_each_slot(reader: Reader) -> None:
    shutil.copytree(ROOT / "examples", reader.folder, dirs_exist_ok=True)
    code, said = reader.run("import forked_workers\nforked_workers.main('sqlite:///workers.db', 2.0)")
    assert code == 0, said
    found = re.search(r"^4 workers ended, (\d+) slots ran$", said, re.MULTILINE)
    assert found is not None, said
    assert int(found[1]) >= 1
