"""Which addresses http jobs may be connected to, and what an operator may add."""

import pytest
from qsched.scheduler.running.http_address import HttpAllow

NOBODY = HttpAllow.of([])


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("8.8.8.8", None),
        ("2001:4860:4860::8888", None),
        ("64:ff9b::808:808", None),
        ("::ffff:8.8.8.8", None),
        ("127.0.0.1", "loopback"),
        ("127.8.9.10", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.0.0.1", "private"),
        ("172.31.0.1", "private"),
        ("192.168.1.1", "private"),
        ("169.254.169.254", "link-local"),
        ("168.63.129.16", "a cloud's metadata"),
        ("192.0.0.192", "reserved"),
        ("::ffff:192.0.0.192", "reserved"),
        ("100.64.0.1", "reserved"),
        ("100.100.100.200", "reserved"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "private"),
        ("240.0.0.1", "private"),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "private"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::a00:1", "private"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b:1::a00:1", "local NAT64"),
        ("::127.0.0.1", "IPv4-compatible"),
    ],
)
def test_only_the_public_internet_is_open(address: str, kind: str | None) -> None:
    assert NOBODY.refusal("shop.example", address) == kind


@pytest.mark.parametrize("address", ["2002:a00:1::", "2002:7f00:1::", "2001:0:a00:1::1", "2001:db8::1"])
def test_what_may_be_tunnelled_inside_is_refused(address: str) -> None:
    assert NOBODY.refusal("shop.example", address) is not None


def test_an_operator_allows_names_addresses_and_ranges() -> None:
    allow = HttpAllow.of(["Intra.Example.", "10.1.0.0/16", "192.168.0.7", "[fd00::1]"])
    assert allow.refusal("intra.example", "169.254.169.254") is None
    assert allow.refusal("INTRA.example.", "10.2.0.1") is None
    assert allow.refusal("other.example", "10.1.2.3") is None
    assert allow.refusal("other.example", "::ffff:10.1.2.3") is None
    assert allow.refusal("other.example", "192.168.0.7") is None
    assert allow.refusal("fd00::1", "fd00::1") is None
    assert allow.refusal("other.example", "10.2.0.1") == "private"
    assert allow.refusal("other.intra.example", "10.2.0.1") == "private"


def test_an_allowed_range_does_not_open_what_is_tunnelled_beside_it() -> None:
    allow = HttpAllow.of(["65.54.227.120"])  # the Teredo server; the client is 127.0.0.1
    assert allow.refusal("x.example", "2001:0:4136:e378:8000:63bf:80ff:fffe") is not None


@pytest.mark.parametrize(
    "word", ["", "a b", "http://x", "host:80", "10.0.0.0/99", "10.0.0.1/8", "1.2.3", "*.x", "-a"]
)
def test_what_is_neither_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(ValueError, match=r"write api\.internal, 10\.0\.0\.5 or 10\.0\.0\.0/8"):
        HttpAllow.of([word])
