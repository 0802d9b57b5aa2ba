"""What is wrong with a declaration: a problem and its place, the codes, and how people are shown them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .errors import QschedError

ERROR = "error"
WARNING = "warning"

CODES = {
    "E001": "a file or folder that cannot be read",
    "E002": "text that is not YAML",
    "E003": "a tab in the indentation",
    "E004": "the same key twice",
    "E005": "a YAML tag",
    "E006": "an alias that cannot be followed",
    "E007": "several documents in one file",
    "E008": "a value that must be quoted",
    "E009": "a merge that contradicts",
    "E010": "a value of the wrong shape",
    "E011": "an unknown key",
    "E012": "a key that this version does not support yet",
    "E013": "something is missing",
    "E014": "an unknown word",
    "E015": "a duration that cannot be read",
    "E016": "a date or time that cannot be read",
    "E017": "a name that cannot be used",
    "E018": "an unknown time zone",
    "E019": "a number out of range",
    "E020": "a schedule that cannot be read",
    "E021": "several schedules, or several things to run",
    "E022": "a schedule that can never fire",
    "E023": "an end before its start",
    "E024": "an unknown job",
    "E025": "one name declared twice",
    "E026": "keys that do not go together",
    "E028": "a variable where none is expanded",
    "E029": "a variable that is not set",
    "E030": "an include that cannot be followed",
    "E031": "files of several namespaces",
    "E032": "no triggers",
    "E033": "a retry policy that makes no sense",
    "E034": "data that cannot be stored",
    "E035": "a format version that is not known",
    "E036": "a job target that cannot be read",
    "W001": "a schedule that is over",
    "W002": "day of month and day of week both set",
    "W003": "a step that begins at one value",
    "W004": "a retry that never fits before the next slot",
    "W005": "a word that is text, and was a boolean in YAML 1.1",
    "W006": "a setting that has no effect here",
    "W007": "a variable that no shell reads",
    "W008": "work that matters and is discarded",
    "W009": "a name that means no exception we know",
    "W010": "a fixed time that a change of clocks within a year moves, leaves out or repeats",
    "W011": "many triggers in one second",
    "W012": "runs that may pile up without bound",
}
"""Every code of a problem; a code never changes its meaning."""

_SHOWN = 100
_WIDEST = 120

PathPart = str | int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong (or, as a warning, doubtful), with its place and one next step."""

    severity: str
    """`error` or `warning`."""
    code: str
    """A key of CODES."""
    message: str
    file: str
    line: int = 0
    """From 1; 0 where the problem is with the file as a whole."""
    column: int = 0
    hint: str = ""
    path: str = ""
    """Where in the declaration: `triggers.nightly.cron`."""
    source: str = field(default="", repr=False)
    """The line itself, for the caret to point into."""
    width: int = field(default=1, repr=False)

    def __str__(self) -> str:
        """In one line, as compilers write it: `file:line:column: error[E011]: …; did you mean …?`."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.severity}[{self.code}]: {self.message}" + (
            f"; {self.hint}" if self.hint else ""
        )

    def render(self) -> str:
        """With its source line and a caret under the place."""
        head = f"{self.severity}[{self.code}]: {self.message}"
        if not self.line:
            return f"{head}\n  --> {self.file}" + (f"\n   = {self.hint}" if self.hint else "")
        text, start = _window(self.source, self.column - 1)
        number = str(self.line)
        edge = " " * len(number)
        blank = "".join("\t" if letter == "\t" else " " for letter in text[:start])
        caret = "^" * max(1, min(self.width, len(text) - start))
        rows = [
            head,
            f"{edge}--> {self.file}:{self.line}:{self.column}",
            f"{edge} |",
            f"{number} | {text}",
            f"{edge} | {blank}{caret} {self.hint}".rstrip(),
        ]
        return "\n".join(rows)


class DeclarationError(QschedError, ValueError):
    """A declaration is wrong; `problems` holds every error and warning, in the order of the files."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """All problems as a person reads them, with a count at the end."""
        return render(self.problems)


def render(problems: Sequence[Problem]) -> str:
    """The problems with their source lines, and one last line that counts them."""
    shown = [problem.render() for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        shown.append(f"… and {len(problems) - _SHOWN} more")
    errors = sum(problem.severity == ERROR for problem in problems)
    files = len({problem.file for problem in problems})
    counts = [_count(errors, "error"), _count(len(problems) - errors, "warning")]
    shown.append(f"{', '.join(filter(None, counts))} in {_count(files, 'file')}")
    return "\n\n".join(shown)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else ""


def _window(text: str, start: int) -> tuple[str, int]:
    """A readable part of a long line, and where `start` lies in it."""
    if len(text) <= _WIDEST:
        return text, min(start, len(text))
    left = max(0, min(start - _WIDEST // 3, len(text) - _WIDEST))
    part = text[left : left + _WIDEST]
    cut = ("…" if left else "") + part + ("…" if left + _WIDEST < len(text) else "")
    return cut, start - left + (1 if left else 0)
