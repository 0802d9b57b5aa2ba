"""Reading along on the wire: which of a client's messages asks for a COMMIT, and what the transaction has done by then.

Only as much of PostgreSQL's and MariaDB's protocols as that takes; bytes that mean nothing here pass as they are.
"""

import re
from typing import NamedTuple, Protocol

ANY = "any"
TAKE = "take"
SETTLE = "settle"
CHECK_IN = "check-in"
OTHER = "other"

_WRITES = re.compile(rb"(UPDATE|INSERT\s+INTO|DELETE\s+FROM)\s+(qsched_\w+)", re.IGNORECASE)
_SHARED_NODE = re.compile(
    rb"FROM\s+qsched_nodes\b.*(FOR KEY SHARE|LOCK IN SHARE MODE)", re.IGNORECASE | re.DOTALL
)
_START_UP_CODES = 8
_LARGEST = 64 * 1024 * 1024


class Message(NamedTuple):
    """One whole message of a client, as it came; `commits` names the kind of transaction that ends with it."""

    data: bytes
    commits: str | None = None


class ClientStream(Protocol):
    """Cuts what a client sends into messages."""

    def feed(self, data: bytes) -> list[Message]: ...


class Transaction:
    """What the statements of one transaction amount to, by the tables they touch."""

    def __init__(self) -> None:
        self._written: set[bytes] = set()
        self._alive = False

    def saw(self, statement: bytes) -> None:
        self._written |= {found[1].lower() for found in _WRITES.findall(statement)}
        self._alive = self._alive or _SHARED_NODE.search(statement) is not None

    def end(self) -> str:
        """Its kind; what follows is a new one."""
        written, alive = self._written, self._alive
        self.__init__()  # type: ignore[misc]
        if not written:
            return OTHER
        if alive and written & {b"qsched_firings", b"qsched_trigger_clocks"}:
            return TAKE
        if written == {b"qsched_nodes"}:
            return CHECK_IN
        if b"qsched_firings" in written:
            return SETTLE
        return OTHER


class PostgresStream:
    """A client of PostgreSQL, simple and extended protocol."""

    def __init__(self) -> None:
        self._buffer = b""
        self._started = False
        self._statements: dict[bytes, bytes] = {}
        self._bound = b""
        self._transaction = Transaction()

    def feed(self, data: bytes) -> list[Message]:
        self._buffer += data
        found = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> Message | None:
        head = 0 if not self._started else 1
        if len(self._buffer) < head + 4:
            return None
        length = head + int.from_bytes(self._buffer[head : head + 4], "big")
        if length > _LARGEST or len(self._buffer) < length:
            return None
        data, self._buffer = self._buffer[:length], self._buffer[length:]
        if not self._started:
            # SSLRequest and GSSENCRequest are 8 bytes and are followed by the start-up itself.
            self._started = length > _START_UP_CODES
            return Message(data)
        return Message(data, self._commits(data[:1], data[5:]))

    def _commits(self, kind: bytes, body: bytes) -> str | None:
        if kind == b"Q":
            return self._statement(body.split(b"\0", 1)[0])
        if kind == b"P":
            name, text = body.split(b"\0", 2)[:2]
            self._statements[name] = text
        elif kind == b"B":
            self._bound = self._statements.get(body.split(b"\0", 2)[1], b"")
        elif kind == b"E":
            return self._statement(self._bound)
        return None

    def _statement(self, text: bytes) -> str | None:
        return _of(text, self._transaction)


class MariaStream:
    """A client of MariaDB: packets of the text protocol."""

    def __init__(self) -> None:
        self._buffer = b""
        self._transaction = Transaction()

    def feed(self, data: bytes) -> list[Message]:
        self._buffer += data
        found = []
        while len(self._buffer) >= 4:
            length = 4 + int.from_bytes(self._buffer[:3], "little")
            if len(self._buffer) < length:
                break
            packet, self._buffer = self._buffer[:length], self._buffer[length:]
            # A command begins its own exchange, numbered from 0; the login's packets do not.
            query = packet[5:] if packet[3] == 0 and packet[4:5] == b"\x03" else None
            found.append(Message(packet, None if query is None else _of(query, self._transaction)))
        return found


class PlainStream:
    """A client whose words are nobody's business: Redis."""

    def feed(self, data: bytes) -> list[Message]:
        return [Message(data)]


def _of(text: bytes, transaction: Transaction) -> str | None:
    word = text.strip().rstrip(b";").upper()
    if word == b"COMMIT":
        return transaction.end()
    if word.startswith((b"ROLLBACK", b"BEGIN", b"START TRANSACTION")):
        transaction.end()
    else:
        transaction.saw(text)
    return None


def backend_of(answer: bytes, database: str) -> int | None:
    """The server's own number of this connection, from what it says first: pg_backend_pid(), CONNECTION_ID()."""
    if database == "postgresql":
        at = answer.find(b"K\0\0\0\x0c")  # BackendKeyData
        return None if at < 0 or len(answer) < at + 9 else int.from_bytes(answer[at + 5 : at + 9], "big")
    if database == "mariadb" and len(answer) > 5 and answer[4] == 10:
        end = answer.find(b"\0", 5)
        return (
            None if end < 0 or len(answer) < end + 5 else int.from_bytes(answer[end + 1 : end + 5], "little")
        )
    return None


def client_stream(database: str) -> ClientStream:
    """The reader for one connection to `database`."""
    if database == "postgresql":
        return PostgresStream()
    return MariaStream() if database == "mariadb" else PlainStream()
