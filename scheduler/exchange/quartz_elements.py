"""An XML file of Quartz as elements that know their lines; document types and entities are refused, not read."""

from dataclasses import dataclass, field
from xml.parsers import expat

from ..errors import SourceError
from .sources import Source


@dataclass(slots=True)
class Element:
    """One element: its name without namespace, its line, its text and what is in it."""

    name: str
    line: int
    text: str = ""
    parts: "list[Element]" = field(default_factory=list)

    def all(self, name: str) -> "list[Element]":
        return [part for part in self.parts if part.name == name]

    def said(self, name: str) -> str | None:
        """The text of the first part of that name; None where there is none, or it is empty."""
        return next((part.text.strip() or None for part in self.all(name)), None)


def elements(source: Source) -> Element:
    """The root element. Raises SourceError with the line for what is no XML, and for a document type of its own."""
    parser = expat.ParserCreate(namespace_separator=" ")
    root = Element("", 0)
    open_ones = [root]

    def begin(name: str, _attributes: dict[str, str]) -> None:
        element = Element(name.rpartition(" ")[2], parser.CurrentLineNumber)
        open_ones[-1].parts.append(element)
        open_ones.append(element)

    def text(data: str) -> None:
        open_ones[-1].text += data

    def refuse(*_: object) -> None:
        raise SourceError(
            f"{source.name}:{parser.CurrentLineNumber} declares a document type, which may define entities",
            hint="remove the <!DOCTYPE …> line: Quartz's own files need none",
        )

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _name: open_ones.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(source.text, True)
    except expat.ExpatError as error:
        raise SourceError(
            f"{source.name}:{error.lineno} is not XML: {expat.ErrorString(error.code)}",
            hint="correct the file",
        ) from error
    return root.parts[0]
