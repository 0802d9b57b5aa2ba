"""JSON objects on a stream socket between two processes: a length, then the text; nothing in it is ever executed."""

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

MOST: Final = 4 * 1024 * 1024
"""Bytes of one frame."""

_HEAD: Final = struct.Struct("!I")


class BrokenFrame(ValueError):
    """What came is no frame."""


def framed(message: Mapping[str, Any]) -> bytes:
    """The bytes of a message; raises ValueError or TypeError for what JSON cannot carry, or is too much."""
    try:
        text = json.dumps(message, separators=(",", ":")).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if len(text) > MOST:
        raise ValueError(f"it takes {len(text):,} bytes, and {MOST:,} is the most")
    return _HEAD.pack(len(text)) + text


class FrameReader:
    """Takes bytes as they come; gives whole messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The messages that are whole now; raises BrokenFrame for what can be none."""
        self._bytes += piece
        while len(self._bytes) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._bytes)
            if length > MOST:
                raise BrokenFrame(f"a frame of {length:,} bytes")
            end = _HEAD.size + length
            if len(self._bytes) < end:
                return
            text = bytes(self._bytes[_HEAD.size : end])
            del self._bytes[:end]
            yield _message(text)


def socket_of_stdin() -> socket.socket:
    """The socket that this process was started with as its standard input, which is empty from now on."""
    channel = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


def _message(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenFrame(f"a frame that is no JSON: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise BrokenFrame("a frame that is no object")
    return value
