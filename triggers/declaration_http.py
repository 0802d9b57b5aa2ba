"""How the keys of `http` are read: an address, headers, a body, and the statuses that mean success."""

import re
from typing import Any, Final

from .declaration_fields import LARGEST_DATA, Wrong, read_json, refused, scalar
from .declaration_variables import HELP, malformed
from .request_template import names_in
from .yaml_scalars import is_null

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MOST_REDIRECTS: Final = 3
SUCCESS: Final = ("200-299",)
"""The statuses that mean success where none are named."""

_LONGEST_URL = 4096
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f-\xff\\]|[^\x00-\xff]")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_NOT_IN_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_STATUS = re.compile(r"([1-5][0-9]{2})(?:\s*-\s*([1-5][0-9]{2}))?\Z")
_OURS: Final = frozenset(
    (
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
    )
)
"""Headers that the request makes itself: another value would break its frame, or send it elsewhere."""


def header_fault(name: str, value: str) -> str | None:
    """Why this cannot be sent as a header; None when it can. Never quotes the value, which may be a secret."""
    if _HEADER_NAME.match(name) is None:
        return f"{name!r} cannot be the name of a header"
    if name.lower() in _OURS or name.lower().startswith("proxy-"):
        return f"the header {name} is set by qsched"
    if _NOT_IN_HEADER.search(value):
        return f"the header {name} holds a line break, or another character that no header carries"
    return None


def server_of(url: str) -> str:
    """What stands between `://` and the path: host and port, as written."""
    return re.split(r"[/?#]", _SCHEME.sub("", url), maxsplit=1)[0]


def url_fault(url: str) -> tuple[str, str] | None:
    """Why a request cannot go to `url`, which may hold `${VAR}` and `{name}`, and what to do; None when it can."""
    if _NOT_IN_URL.search(url):
        return "a url holds no blanks, no `\\` and only ASCII", "percent-encode them, as in %20"
    if not url.startswith("${") and _SCHEME.match(url) is None:
        return "a url begins with https:// or http://", "write it whole"
    server = server_of(url)
    if "@" in server:
        hint = "send a header, as in Authorization: Bearer ${TOKEN}"
        return "a url must not hold a name or password", hint
    if names_in(server) and not url.startswith("${"):
        hint = "use {name} after the host, or write the host itself"
        return "data must not choose the host that is called", hint
    if not server:
        return "this url names no host", "write https://host/path"
    return None


def read_url(value: object) -> str:
    """An http or https address; `{name}` in path and query stands for data."""
    text = scalar(value, "a url")
    if malformed(text) is not None:
        raise refused(Wrong("E028", "a `${…}` that cannot be read", HELP))
    if len(text) > _LONGEST_URL:
        raise refused(Wrong("E010", f"this url is longer than {_LONGEST_URL} characters", "send a body"))
    if (fault := url_fault(text)) is not None:
        raise refused(Wrong("E010", *fault))
    return text


def read_headers(value: object) -> dict[str, str]:
    """Names and values as they are written; `{name}` stands for data."""
    if not isinstance(value, dict):
        raise refused(Wrong("E010", "expected a mapping of headers", "write {Name: value}"))
    read: dict[str, str] = {}
    wrongs = []
    for name, item in value.items():
        if not isinstance(item, str) or is_null(item):
            wrongs.append(Wrong("E010", f"the header `{name}` needs a text", "give it one", (name,)))
        elif malformed(item) is not None:
            wrongs.append(Wrong("E028", "a `${…}` that cannot be read", HELP, (name,)))
        elif (fault := header_fault(name, item)) is not None:
            wrongs.append(Wrong("E010", fault, "correct it, or remove it", (name,), True))
        elif name.lower() in map(str.lower, read):
            wrongs.append(Wrong("E010", f"the header {name} is given twice", "keep one", (name,), True))
        else:
            read[str(name)] = str(item)
    if wrongs:
        raise refused(*wrongs)
    return read


def read_body(value: object) -> str:
    """A text to be sent as it is, `${…}` expanded."""
    text = scalar(value, "a text")
    if malformed(text) is not None:
        raise refused(Wrong("E028", "a `${…}` that cannot be read", HELP))
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_DATA:
        raise refused(
            Wrong("E034", f"a body of more than {LARGEST_DATA // 1024} KiB", "send it from a function")
        )
    if any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in text):
        raise refused(Wrong("E034", "a body holds whole characters, and no NUL", "remove it"))
    return text


def read_json_body(value: object) -> Any:
    """Any JSON value, sent as it is, `${…}` expanded in its texts."""
    return read_json(value)


def read_statuses(value: object) -> list[str]:
    """Statuses that mean success: numbers and ranges, as in `[200-299, 304]`, or one of them."""
    read, wrongs = [], []
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        text = scalar(item, "a status or a range of them")
        found = _STATUS.match(text)
        if found is None or (found[2] is not None and found[1] > found[2]):
            at = (index,) if isinstance(value, list) else ()
            wrongs.append(Wrong("E010", f"`{text[:40]}` is no status", "write 204, or 200-299", at))
        else:
            read.append(found[1] if found[2] is None else f"{found[1]}-{found[2]}")
    if wrongs or not read:
        raise refused(*wrongs or [Wrong("E010", "no status would be a success", "write [200-299]")])
    return read
