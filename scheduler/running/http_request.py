"""The request of one run: the declared one with its data and environment filled in, and what it becomes at a redirect."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

from ...triggers.declaration_http import header_fault, server_of, url_fault
from ...triggers.declaration_variables import expand
from ...triggers.request_template import filled, method_of
from ..context import JobContext
from ..errors import PermanentError
from ..key_template import plain_value
from .http_line import Server

_SENDS_DATA: Final = ("POST", "PUT", "PATCH")
_TO_ANYBODY: Final = frozenset(("user-agent", "accept", "accept-language"))
"""Headers that may follow a redirect to another server; any other may be a secret."""
_IN_URLS: Final = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent, and where to."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def server(self) -> Server:
        """Whom it is sent to; raises PermanentError for a url that names nobody."""
        parts = urlsplit(self.url)
        scheme = parts.scheme.lower()
        try:
            port = parts.port
        except ValueError:
            port = 0
        if scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise PermanentError("the url names no server: correct its host and port")
        return Server(scheme, parts.hostname, port or {"http": 80, "https": 443}[scheme])

    @property
    def path(self) -> str:
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def redirected(self, status: int, location: str) -> "HttpRequest":
        """The request that follows an answer with a redirect; raises PermanentError for one that is not followed."""
        url = urljoin(self.url, quote(location, safe=_IN_URLS, encoding="latin-1"))
        if (fault := url_fault(url)) is not None:
            raise PermanentError(f"the redirect is not followed: {fault[0]}")
        made = replace(self, url=url)
        if status == 303 or (status in (301, 302) and self.method == "POST"):
            method = self.method if self.method == "HEAD" else "GET"
            headers = {name: text for name, text in self.headers.items() if name.lower() != "content-type"}
            made = replace(made, method=method, headers=headers, body=None)
        if made.server == self.server:
            return made
        if made.server.scheme == "http" and self.server.scheme == "https":
            raise PermanentError("the redirect is not followed: it leads from https to http")
        if made.body is not None:
            raise PermanentError("the redirect is not followed: it would send the body to another server")
        kept = {name: text for name, text in made.headers.items() if name.lower() in _TO_ANYBODY}
        return replace(made, headers=kept)


def request_of(ctx: JobContext) -> HttpRequest:
    """The first request of a run.

    Raises PermanentError for data that do not fit or values that cannot be sent, VariableError for `${VAR}` without a
    value; neither shows a value.
    """
    definition = ctx.request.job.definition
    declared = definition.request
    method = method_of(declared)
    body, kind = _body(method, declared, ctx)
    headers = {"User-Agent": f"qsched/{_version()}", "Accept": "*/*"}
    headers |= {"Idempotency-Key": quoted(ctx.idempotency_key)}
    if body is not None:
        headers["Content-Type"] = kind
    for name, text in declared.get("headers", {}).items():
        for known in [each for each in headers if each.lower() == name.lower()]:
            del headers[known]
        headers[name] = filled(text, os.environ, lambda word: _plain(word, ctx, "a header")).strip()
        if (fault := header_fault(name, headers[name])) is not None:
            raise PermanentError(f"{fault}: correct it, its variable or its data")
    return HttpRequest(method, _url(str(definition.target), ctx), headers, body)


def quoted(text: str) -> str:
    """A string as structured headers have it (RFC 8941, 3.3.3); what is not ASCII is percent-encoded."""
    plain = re.sub(r"[^\x20-\x7e]+", lambda found: quote(found[0], errors="replace"), text)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _url(declared: str, ctx: JobContext) -> str:
    def in_url(name: str) -> str:
        value = _plain(name, ctx, "the url")
        if value in (".", ".."):
            raise PermanentError(
                f"the url names {name}, whose value would lead to another path: correct the data"
            )
        return quote(value, safe="")

    url = filled(declared, os.environ, in_url)
    if (fault := url_fault(url)) is not None:
        raise PermanentError(f"{fault[0]}: {fault[1]}")
    if server_of(url) != server_of(filled(declared, os.environ, lambda _: "")):
        raise PermanentError(
            "data must not choose the host that is called: end the variable before them with /"
        )
    return url


def _body(method: str, declared: Mapping[str, Any], ctx: JobContext) -> tuple[bytes | None, str]:
    if "body" in declared:
        text = str(expand(declared["body"], os.environ))
        return text.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    if "json" in declared:
        return _json(expand(declared["json"], os.environ)), "application/json"
    if method in _SENDS_DATA:
        return _json(dict(ctx.data)), "application/json"
    return None, ""


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _plain(name: str, ctx: JobContext, of: str) -> str:
    return plain_value(name, ctx.data, of=of)


@cache
def _version() -> str:
    try:
        return version("qsched")
    except PackageNotFoundError:
        return "unknown"
