"""The privacy boundary class by class, in every spelling that the seed names, and what lies just outside of each."""

import pytest

from moorage.protocols.ledger.confidential import is_confidential, is_confidential_by_every_rule
from moorage.protocols.ledger.producers import ident
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.text import machine_text
from moorage.protocols.ledger.urls import parse_https

A16, A36 = "a" * 16, "a" * 36

CONFIDENTIAL: dict[str, list[str]] = {
    "GitHub tokens": [*(f"{kind}_{A16}" for kind in ("ghp", "gho", "ghu", "ghs", "ghr", "GHP")), f"github_pat_{A16}"],
    "other token families": [
        f"sk-{A16}",
        f"task-{A16}",
        f"npm_{A36}",
        "xoxb-0123456789",
        "xoxe-abcdefghij",
        f"AKIA{A16.upper()}",
        f"asia{A16}",
        f"eyJhbGci.eyJzdWIi.{A16}",
        f"x.eyJhbGci.eyJzdWIi.{A16}.y",
    ],
    "delimited credentials": [
        f"bearer:{A16}",
        f"Bearer_{A16}",
        f"bearer+{A16}",
        f"authorization-{A16}",
        f"api-key={A16}",
        f"API_KEY : {A16}",
        f"apitoken {A16}",
        f"access_token%20{A16}",
        f"client-secret:{A16}",
        f"cloudflare_{'key'}:{A16}",
        f"cloudflare-api-token+{A16}",
        "Basic YTpi",
        "basic:YTpiYzo=",
        "BASIC+YTpiYw==",
        "Basic%20YTpi",
    ],
    "key blocks": ["-----BEGIN PRIVATE KEY-----", "BEGIN EC PRIVATE KEY", "BEGIN OPENSSH PRIVATE KEY"],
    "e-mail": ["alice@example.com", "a@b", "x/alice+tag@host", "alice%40example.com", "git@github.com:a/b"],
    "paths": [
        "/Users/alice",
        "x/home/alice/y",
        "x/PRIVATE/y",
        "a/tmp/b",
        "C:/x",
        r"C:\Users\alice",
        r"\\host\users\alice",
        "x/d:/y",
        "key:/etc/passwd",
        "key:C:/x",
        "file:x",
        "FILE:///etc/passwd",
        "%2FUsers%2Falice",
        "a%252Fb",
    ],
    "user information": [
        "https://user@host.example/x",
        "https://user:pass@host.example",
        "ssh:git@host",
        "git+ssh://git@host.example/a",
        "x:y://u@h",
    ],
    "host names": [
        "localhost",
        "LOCALHOST...",
        "localhost:8080",
        "https://localhost/x",
        "https://localhost?x",
        "https://localhost#x",
        r"https:\\localhost\x",
        "db.internal",
        "a.b.CORP",
        "printer.lan",
        "nas.home",
        "nas.home.arpa.",
        "x.local/y",
        "intranet.example.com",
        "internal.example",
        "x:db.internal:5432",
        "wss://db.internal",
        "custom://db.internal/x",
        "https://db\uff0einternal/",
        "https://lo\u00adcalhost/",
        "https://\u24db\u24deca\u24dbhost/",
    ],
    "IPv4 addresses": [
        "10.0.0.1",
        "127.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "169.254.169.254",
        "192.168.1.1",
        "172.16.0.1",
        "172.31.255.255",
        "x-10.1.2.3-y",
        "v10.0.0.1",
        "10.999.0.1",
    ],
    "IPv4 in other numbers": [
        "010.0.0.1",
        "8.8.8.08",
        "0x7f.0.0.1",
        "0xA.1.1.1",
        "0b1010.0.0.1",
        "0o12.0.0.1",
        "1e1.0.0.1",
        "127...1",
        "127.+0.0.1",
        "http://2130706433",
        "http://0x7f000001/",
        "http://017700000001",
        "http://127.1",
        "http://10.1.2/x",
        "http://192.168.257",
        "http://172.16.1:80",
        "http://0x7f.1",
        "https://0x7F.0.0.0x1/",
        "https:127.1",
        "https:///127.1/",
        "http://127.0x1/",
        "ws://a.b.0x7f",
        "http://8.8.8.0x8",
        "http://\uff11\uff12\uff17.1/",
        "http://127\u30021/",
    ],
    "IPv6 addresses": [
        "::1",
        "[::1]:80",
        "0:0:0:0:0:0:0:1",
        "0000:0000:0000:0000:0000:0000:0000:0001",
        "0::0:1",
        "fc00::1",
        "fdff:1:2:3:4:5:6:7",
        "FE80::1",
        "febf::1",
        "fe80::1%eth0",
        "http://[fd12::1]/",
        "::ffff:10.0.0.1",
        "::ffff:a00:1",
        "0:0:0:0:0:ffff:7f00:1",
        "::127.0.0.1",
        "::7f00:1",
        "::ffff:c0a8:1",
        "::ffff:ac1f:ffff",
        "x/::ffff:a9fe:1",
        "custom://[::ffff:10.0.0.1]/",
        "fd12:x",
    ],
}
PUBLIC: dict[str, list[str]] = {
    "almost tokens": [
        "ghp_" + "a" * 15,
        "ghx_" + A16,
        "sk-" + "a" * 15,
        "npm_" + "a" * 35,
        "npm_" + "a" * 37,
        "xnpm_" + A36,
        "xoxb-012345678",
        "AKIA" + "A" * 15,
        "AKIA" + "A" * 17,
        "eyJabcd.eyJhbGci." + A16,
        "EYJhbGci.eyJzdWIi." + A16,
        "bearer" + A16,
        "bearer:" + "a" * 15,
        "secret:" + A16,
        "basic:YWJ",
        "basicYTpi",
    ],
    "almost places": [
        "users/alice",
        "x/homes/y",
        "tmp",
        "a/tmp",
        "profile:x",
        "key:value",
        "key://x",
        "100.63.0.1",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "11.0.0.1",
        "128.0.0.1",
        "8.8.8.8",
        "1.2.3",
        "http://8.8.8.8/x",
        "http://8.8.8/",
        "localhosts",
        "internal",
        "my-internal",
        "x.localx",
        "x.internal.example",
        "homeland",
        "https://example.com/localhosts",
        "ssh://host.example/x",
        "2001:db8::1",
        "a:b",
        "fec0::1",
        "::2",
        "::ffff:808:808",
        "http:0_1.0.0.1x",
    ],
    "numbers that Python reads and no browser does": [
        "http:0o12.0.0.2",
        "wss:0o12.1",
        "http:0x1_0.1",
        "http:1_0.0.0.1",
    ],
}


def every(table: dict[str, list[str]]) -> list[object]:
    return [pytest.param(value, id=f"{name}-{value!a}") for name, values in table.items() for value in values]


@pytest.mark.parametrize("value", every(CONFIDENTIAL))
def test_what_must_never_be_stored(value: str) -> None:
    assert is_confidential(value)
    assert is_confidential_by_every_rule(value)
    with pytest.raises(LedgerRefusal) as caught:
        machine_text(value)
    assert caught.value.code == "confidential"


@pytest.mark.parametrize("value", every(PUBLIC))
def test_what_only_looks_like_it(value: str) -> None:
    assert not is_confidential(value)
    assert not is_confidential_by_every_rule(value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("http://127.0_0.1=", "machine-text"),
        ("http://in\u180eternal.x/", "machine-text"),
        ("custom://a b.internal/", "machine-text"),
        ("::2=", "machine-text"),
    ],
)
def test_what_is_refused_for_its_form_alone(value: str, code: str) -> None:
    with pytest.raises(LedgerRefusal) as caught:
        machine_text(value)
    assert caught.value.code == code


def test_a_name_that_is_not_utf_8_is_made_safe_too() -> None:
    """An environment variable of other bytes holds lone surrogates; they hash as the replacement character."""
    assert ident("job\udcff", 64) == ident("job\ud800", 64) == ident("job\ufffd", 64)
    assert ident("\udcffjob", 64).startswith("job-")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTPS:Host.EXAMPLE", ("https://host.example", "/")),
        (r"https:\\h.example\a\..\b", ("https://h.example", "/b")),
        ("https://h.example:0443/%2e%2E/%41/.", ("https://h.example", "/%41/")),
        ("https://h.example:8443/a b/\u00e9", ("https://h.example:8443", "/a%20b/%C3%A9")),
        ("https://0x7f.1/x", ("https://127.0.0.1", "/x")),
        ("https://[0:0::1]/", ("https://[::1]", "/")),
        ("https://\u65e5\u672c.example/^", ("https://xn--wgv71a.example", "/^")),
        ("https://xn--wgv71a.example", ("https://xn--wgv71a.example", "/")),
        ("https://xn--a.example", None),
        ("https://xn--a\u65e5.example", None),
        ("https://256.1.1.1.1", None),
        ("https://1.2.3.08", None),
        ("https://h.example:65536", None),
        ("https://h.example:8x", None),
        ("https://a%2fb", None),
        ("https://", None),
        ("http://h.example", None),
    ],
)
def test_urls_as_a_browser_reads_them(text: str, expected: tuple[str, str] | None) -> None:
    url = parse_https(text)
    assert (None if url is None else (url.origin, url.path)) == expected
