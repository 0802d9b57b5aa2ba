"""What a command wrote, in bounded memory: its beginning, its end, and how much is missing between."""

import json
from collections.abc import Callable

from ..outcome import clean as storable

PART = 32 * 1024
_SEAM = 4 * 1024


class CommandOutput:
    """Takes output of any length; keeps the first and the last `part` bytes."""

    def __init__(self, part: int = PART) -> None:
        self._part = part
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes written in all."""
        return self._size

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._size += len(piece)
        room = self._part - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        self._tail += piece
        if len(self._tail) > 2 * self._part:
            del self._tail[: -self._part]

    def text(self) -> str:
        """All that is kept, as text, with a line that says what is not."""
        return self.shortened(2 * self._part)

    def said(self, clean: Callable[[str], str] | None = None) -> str:
        """As an outcome carries it: JSON of the text, which the databases take, and of its size."""
        text = storable(self.shortened(2 * self._part, clean))
        return json.dumps({"text": text, "size": self._size}, ensure_ascii=False)

    def shortened(self, most: int, clean: Callable[[str], str] | None = None) -> str:
        """Head and tail in about `most` bytes, half each; `clean` sees them before they are cut, so that no part slips by."""
        tail = self._tail[-self._part :]
        whole = self._size == len(self._head) + len(tail)
        if whole and self._size <= most:
            text = (self._head + tail).decode("utf-8", "replace")
            return text if clean is None else clean(text)
        head, end = self._head, self._head + tail if whole else tail
        if clean is not None:
            head, end = (bytearray(clean(part.decode("utf-8", "replace")).encode()) for part in (head, end))
        if clean is not None and not whole:  # what is between may have begun before, or ended behind
            head, end = head[:-_SEAM], end[_SEAM:]
        head, end = head[: most - most // 2], end[-(most // 2) :]
        missing = f"\n… {max(0, self._size - len(head) - len(end)):,} bytes left out …\n"
        return head.decode("utf-8", "replace") + missing + end.decode("utf-8", "replace")
