"""Reading along: a COMMIT is known for what it is however the bytes come, and by what its transaction wrote."""

import pytest

from fault.wire import CHECK_IN, OTHER, SETTLE, TAKE, ClientStream, MariaStream, PostgresStream

SHARE = "SELECT state FROM qsched_nodes WHERE incarnation = $1 FOR KEY SHARE"
SHARE_MARIA = "SELECT state FROM qsched_nodes WHERE incarnation = 1 LOCK IN SHARE MODE"
TRANSACTIONS = [
    (["UPDATE qsched_nodes SET checked_in_at = 1", "SELECT count(*) FROM qsched_nodes"], CHECK_IN),
    ([SHARE, "SELECT 1 FROM qsched_trigger_clocks", "INSERT INTO qsched_firings VALUES (1)"], TAKE),
    ([SHARE_MARIA, "UPDATE qsched_trigger_clocks SET version = 2"], TAKE),
    (["UPDATE qsched_firings t SET state = 'succeeded'", "UPDATE qsched_permits SET fence = 1"], SETTLE),
    (["SELECT 1"], OTHER),
]


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def _startup() -> bytes:
    asked = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
    body = (196608).to_bytes(4, "big") + b"user\0qsched\0\0"
    return asked + (len(body) + 4).to_bytes(4, "big") + body


def _extended(name: bytes, text: str) -> bytes:
    parse = _message(b"P", name + b"\0" + text.encode() + b"\0\0\0")
    return parse + _bound(name)


def _bound(name: bytes) -> bytes:
    return (
        _message(b"B", b"\0" + name + b"\0\0\0\0\0\0\0") + _message(b"E", b"\0\0\0\0\0") + _message(b"S", b"")
    )


def _simple(text: str) -> bytes:
    return _message(b"Q", text.encode() + b"\0")


def _packet(text: str, number: int = 0) -> bytes:
    body = b"\x03" + text.encode()
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def _commits(stream: ClientStream, sent: bytes, size: int) -> list[str]:
    """The kinds of the COMMITs seen, and a check that no byte is lost on the way."""
    passed, found = b"", []
    for start in range(0, len(sent), size):
        for message in stream.feed(sent[start : start + size]):
            passed += message.data
            if message.commits is not None:
                found.append(message.commits)
    assert passed == sent
    return found


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_postgresqls_commits_in_both_protocols(size: int) -> None:
    sent = _startup()
    for number, (statements, _) in enumerate(TRANSACTIONS):
        sent += _simple("BEGIN")
        for text in statements:
            sent += _extended(b"", text)
        sent += _simple("COMMIT") if number % 2 else _extended(b"", "commit;")
    assert _commits(PostgresStream(), sent, size) == [kind for _, kind in TRANSACTIONS]


def test_a_prepared_statement_travels_by_its_name_only() -> None:
    first = _startup() + _extended(b"s1", "UPDATE qsched_nodes SET checked_in_at = $1") + _simple("COMMIT")
    again = _bound(b"s1") + _simple("COMMIT")
    assert _commits(PostgresStream(), first + again, 50) == [CHECK_IN, CHECK_IN]


def test_what_was_rolled_back_is_no_part_of_the_next() -> None:
    sent = _startup() + _simple("UPDATE qsched_nodes SET pid = 1") + _simple("ROLLBACK") + _simple("COMMIT")
    assert _commits(PostgresStream(), sent, 1000) == [OTHER]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_mariadbs_commits(size: int) -> None:
    sent = _packet("COMMIT", number=1)  # a part of the login that looks like one
    for statements, _ in TRANSACTIONS:
        for text in [*statements, "COMMIT"]:
            sent += _packet(text)
    assert _commits(MariaStream(), sent, size) == [kind for _, kind in TRANSACTIONS]
