"""What a command wrote, in bounded memory: its beginning, its end, and how much is missing between."""

from collections.abc import Callable

PART = 32 * 1024


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
        head, end = head[: most - most // 2], end[-(most // 2) :]
        missing = f"\n… {max(0, self._size - len(head) - len(end)):,} bytes left out …\n"
        return head.decode("utf-8", "replace") + missing + end.decode("utf-8", "replace")
