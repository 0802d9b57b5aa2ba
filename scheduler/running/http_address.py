"""Which addresses an http job may be connected to: the public internet's, and what the node's operator allows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_HOST: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\Z")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_OTHERS: Final = {
    ip_network("64:ff9b:1::/48"): "local NAT64",
    ip_network("::/96"): "IPv4-compatible",
    ip_network(
        "192.0.0.0/24"
    ): "reserved",  # a cloud's metadata among them; Python's older tables know but a part
    ip_network("168.63.129.16/32"): "a cloud's metadata",
}
"""What Python's tables call global, and what is all the same none of a stranger's business."""


@dataclass(frozen=True, slots=True)
class HttpAllow:
    """What an operator allows beyond the public internet: `hosts` by name, whatever their addresses, and `networks`."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str]) -> "HttpAllow":
        """Read host names, addresses and CIDR ranges; raises ValueError naming what is none of them."""
        hosts: set[str] = set()
        networks: list[_Network] = []
        for word in words:
            text = word.strip().rstrip(".").lower()
            try:
                networks.append(ip_network(text.strip("[]")))
                continue
            except ValueError:
                numeric = "/" in text or re.fullmatch(r"[0-9.]+", text) is not None
            if numeric or _HOST.match(text) is None:
                raise ValueError(
                    f"{word!r} is no host name, address or range: write api.internal, 10.0.0.5 or 10.0.0.0/8"
                )
            hosts.add(text)
        return cls(frozenset(hosts), tuple(networks))

    def refusal(self, host: str, address: str) -> str | None:
        """What kind of address this is, where `host` must not be reached at it; None where it may."""
        if host.rstrip(".").lower() in self.hosts:
            return None
        found = ip_address(address.partition("%")[0])
        meant = [found, *_within(found)]
        strange = [each for each in meant if not any(each in network for network in self.networks)]
        return next((kind for each in strange if (kind := _kind(each)) is not None), None)


def _within(address: _Address) -> list[_Address]:
    """The IPv4 addresses that an IPv6 one stands for, in every way that a gateway or a kernel may read it."""
    if isinstance(address, IPv4Address):
        return []
    teredo = address.teredo or ()
    nat64 = [IPv4Address(int(address) & 0xFFFFFFFF)] if address in _NAT64 else []
    return [each for each in (address.ipv4_mapped, address.sixtofour, *teredo, *nat64) if each is not None]


def _kind(address: _Address) -> str | None:
    """Why nobody outside has business there; None for an address of the public internet."""
    for kind in ("unspecified", "loopback", "link_local", "multicast"):
        if getattr(address, f"is_{kind}"):
            return kind.replace("_", "-")
    for network, kind in _OTHERS.items():
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address in _NAT64):
        return None  # judged by what it stands for
    if address.is_private or (isinstance(address, IPv6Address) and address.is_site_local):
        return "private"
    return None if address.is_global and not address.is_reserved else "reserved"
