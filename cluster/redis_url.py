"""The URL of a Redis as people write it: looked at before anything is connected, and never shown with its password."""

from importlib.util import find_spec
from urllib.parse import urlsplit

from .errors import NodeSettingsError

_SCHEMES = ("redis", "rediss", "unix")
_SHAPE = "write redis://host:6379/0 (rediss:// for TLS, unix:///path.sock), and quote / and @ in a password as %2F and %40"


def check_redis_url(url: str) -> None:
    """Raises NodeSettingsError for what cannot be a Redis, and where the package for it is missing.

    No error repeats the URL: it may hold a password.
    """
    try:
        parts = urlsplit(url)
        scheme, port = parts.scheme, parts.port
    except ValueError:  # its words may quote what stands behind the password's colon
        raise NodeSettingsError(f"the Redis URL cannot be read: {_SHAPE}") from None
    if scheme not in _SCHEMES:
        raise NodeSettingsError(f"the Redis URL has an unknown scheme: {_SHAPE}")
    if scheme == "unix":
        if not parts.path:
            raise NodeSettingsError(f"the Redis URL names no socket: {_SHAPE}")
    elif not parts.hostname or port == 0:
        raise NodeSettingsError(f"the Redis URL names no host: {_SHAPE}")
    elif parts.path.strip("/") and not parts.path.strip("/").isdigit():
        raise NodeSettingsError(f"the Redis URL names a database that is no number: {_SHAPE}")
    if find_spec("redis") is None:
        raise NodeSettingsError("the Python package for Redis is not installed: pip install 'qsched[redis]'")


def shown(url: str) -> str:
    """The place without user, password and options, for logs."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or 6379}{parts.path}"
