"""Signatures: RFC 9421's own example, an independent library, and everything that must be refused."""

import base64
import dataclasses
import datetime
import hashlib
import hmac
from types import SimpleNamespace
from typing import Any

import pytest
from http_message_signatures import (
    HTTPMessageSigner,
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    algorithms,
)
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.signatures import (
    COMPONENTS,
    NonceMemory,
    Reason,
    Refused,
    Request,
    body_hmac,
    sign_request,
    verify_request,
)
from moorage.protocols.signatures.digest import check_content_digest, content_digest
from moorage.protocols.signatures.message import signature_base
from moorage.protocols.signatures.requests import check_signature
from moorage.protocols.signatures.structured import (
    InnerList,
    Item,
    Malformed,
    Token,
    parse_dictionary,
    serialize_bare,
    serialize_inner_list,
)

NOW = 1_796_048_000
KEY = b"lab-webhook-secret"

RFC_KEY = base64.b64decode("uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==")
RFC_REQUEST = Request(
    "POST",
    b"/foo",
    b"param=Value&Pet=dog",
    (
        (b"host", b"example.com"),
        (b"date", b"Tue, 20 Apr 2021 02:07:55 GMT"),
        (b"content-type", b"application/json"),
        (
            b"content-digest",
            b"sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:",
        ),
        (b"content-length", b"18"),
    ),
    "https",
)
RFC_INPUT = '("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"'
RFC_SIGNATURE = "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8="
RFC_BASE = """"date": Tue, 20 Apr 2021 02:07:55 GMT
"@authority": example.com
"content-type": application/json
"@signature-params": ("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret\""""


def covered_of(text: str) -> InnerList:
    member = parse_dictionary(f"sig={text}")["sig"]
    assert isinstance(member, InnerList)
    return member


class TestRfc9421:
    """Appendix B.2.5, "Signing a Request Using hmac-sha256", and the digest of B.2."""

    def test_signature_base(self) -> None:
        assert signature_base(RFC_REQUEST, covered_of(RFC_INPUT)).decode() == RFC_BASE

    def test_signature(self) -> None:
        assert check_signature(RFC_REQUEST, covered_of(RFC_INPUT), base64.b64decode(RFC_SIGNATURE), [RFC_KEY])

    def test_another_date_is_another_signature(self) -> None:
        headers = [(n, b"Tue, 20 Apr 2021 02:07:56 GMT" if n == b"date" else v) for n, v in RFC_REQUEST.headers]
        moved = dataclasses.replace(RFC_REQUEST, headers=headers)
        assert not check_signature(moved, covered_of(RFC_INPUT), base64.b64decode(RFC_SIGNATURE), [RFC_KEY])

    def test_content_digest(self) -> None:
        value = RFC_REQUEST.field("content-digest")
        assert value is not None
        check_content_digest(value, b'{"hello": "world"}')
        with pytest.raises(Refused, match="content_digest_mismatch"):
            check_content_digest(value, b'{"hello": "World"}')

    def test_it_is_not_a_signature_of_ours(self) -> None:
        request = dataclasses.replace(
            RFC_REQUEST,
            headers=[
                *RFC_REQUEST.headers,
                (b"signature-input", f"sig-b25={RFC_INPUT}".encode()),
                (b"signature", f"sig-b25=:{RFC_SIGNATURE}:".encode()),
            ],
        )
        with pytest.raises(Refused, match="component_not_covered"):
            verify_request(request, b'{"hello": "world"}', {"test-shared-secret": [RFC_KEY]}, 1618884473)


class Keys(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id: str) -> Any:
        return KEY

    def resolve_public_key(self, key_id: str) -> Any:
        return KEY


@pytest.mark.parametrize("query", ["", "a=1&b=%20x", "q"])
@pytest.mark.parametrize("path", ["/internal/state/records/slugs", "/x/%2e%2e/y", "/"])
class TestIndependentLibrary:
    def test_it_verifies_what_we_sign(self, path: str, query: str) -> None:
        now = int(datetime.datetime.now(datetime.UTC).timestamp())
        headers = sign_request(
            "PUT", path.encode(), query.encode(), b"{}", key=KEY, key_id="webhook", created=now, nonce="n-1"
        )
        url = f"http://127.0.0.1:8787{path}" + (f"?{query}" if query else "")
        message = SimpleNamespace(method="PUT", url=url, headers=headers)
        verifier = HTTPMessageVerifier(signature_algorithm=algorithms.HMAC_SHA256, key_resolver=Keys())
        (result,) = verifier.verify(message, max_age=datetime.timedelta(seconds=60))
        assert set(result.covered_components) >= {f'"{name}"' for name in COMPONENTS}

    def test_we_verify_what_it_signs(self, path: str, query: str) -> None:
        url = f"http://127.0.0.1:8787{path}" + (f"?{query}" if query else "")
        message = SimpleNamespace(method="PUT", url=url, headers={})
        signer = HTTPMessageSigner(signature_algorithm=algorithms.HMAC_SHA256, key_resolver=Keys())
        signer.sign(
            message,
            key_id="webhook",
            created=datetime.datetime.fromtimestamp(NOW, datetime.UTC),
            nonce="n-2",
            covered_component_ids=COMPONENTS[:3],
            body=b"{}",
        )
        lines = [(name.lower().encode(), value.encode()) for name, value in message.headers.items()]
        verified = verify_request(
            Request("PUT", path.encode(), query.encode(), lines), b"{}", {"webhook": [KEY]}, NOW + 1
        )
        assert (verified.key_id, verified.nonce, verified.created) == ("webhook", "n-2", NOW)


def signed(
    body: bytes = b"{}",
    *,
    method: str = "POST",
    path: bytes = b"/a/b",
    query: bytes = b"",
    key: bytes = KEY,
    **more: Any,
) -> Request:
    parameters: dict[str, Any] = {"key_id": "webhook", "created": NOW, "nonce": "nonce-1", **more}
    headers = sign_request(method, path, query, body, key=key, **parameters)
    return Request(method, path, query, [(name.encode(), value.encode()) for name, value in headers.items()])


def with_header(request: Request, name: str, change: Any) -> Request:
    wanted = name.encode()
    lines = []
    for header, value in request.headers:
        new = change(value.decode()) if header == wanted else value.decode()
        if new is not None:
            lines.append((header, new.encode()))
    return dataclasses.replace(request, headers=lines)


def refusal(request: Request, body: bytes = b"{}", keys: Any = None, now: float = NOW) -> str:
    with pytest.raises(Refused) as caught:
        verify_request(request, body, {"webhook": [KEY]} if keys is None else keys, now)
    assert KEY.decode() not in str(caught.value)
    return caught.value.reason


class TestVersion2:
    def test_round_trip(self) -> None:
        verified = verify_request(signed(), b"{}", {"webhook": [KEY]}, NOW)
        assert (verified.key_id, verified.nonce, verified.created, verified.label) == (
            "webhook",
            "nonce-1",
            NOW,
            "moorage",
        )

    @pytest.mark.parametrize("skew", [-300, 300])
    def test_skew_is_allowed_to_the_second(self, skew: int) -> None:
        verify_request(signed(), b"{}", {"webhook": [KEY]}, NOW + skew)

    @pytest.mark.parametrize(("skew", "reason"), [(301, Reason.TOO_OLD), (-301, Reason.IN_FUTURE)])
    def test_beyond_the_skew(self, skew: int, reason: Reason) -> None:
        assert refusal(signed(), now=NOW + skew) == reason

    def test_previous_key(self) -> None:
        verify_request(signed(key=b"old"), b"{}", {"webhook": [KEY, b"old"]}, NOW)

    def test_moved_to_another_place(self) -> None:
        request = signed()
        for change in ({"method": "PUT"}, {"path": b"/a/c"}, {"query": b"x=1"}):
            assert refusal(dataclasses.replace(request, **change)) == Reason.WRONG

    def test_another_body(self) -> None:
        assert refusal(signed(), b"{ }") == Reason.DIGEST_MISMATCH

    def test_another_digest_header(self) -> None:
        assert refusal(with_header(signed(), "content-digest", lambda _: content_digest(b"x")), b"x") == Reason.WRONG

    @pytest.mark.parametrize(
        ("name", "change", "reason"),
        [
            ("signature", lambda _: None, Reason.MISSING_SIGNATURE),
            ("signature-input", lambda _: None, Reason.MISSING_SIGNATURE),
            ("content-digest", lambda _: None, Reason.MISSING_COMPONENT),
            ("signature", lambda v: v.replace("moorage", "other"), Reason.MISSING_SIGNATURE),
            ("signature", lambda _: "moorage=1", Reason.MALFORMED_SIGNATURE),
            ("signature", lambda _: "moorage=:?:", Reason.MALFORMED_SIGNATURE),
            ("signature", lambda _: "moorage=:AAAA:", Reason.WRONG),
            ("signature-input", lambda _: "moorage=(", Reason.MALFORMED_INPUT),
            ("signature-input", lambda _: "moorage=1", Reason.MALFORMED_INPUT),
            ("signature-input", lambda _: "", Reason.MALFORMED_INPUT),
            ("signature-input", lambda v: v + "a" * 5000, Reason.MALFORMED_INPUT),
            ("signature-input", lambda v: v.replace('"@path" ', ""), Reason.COMPONENT_NOT_COVERED),
            ("signature-input", lambda v: v.replace('"content-digest"', ""), Reason.COMPONENT_NOT_COVERED),
            ("signature-input", lambda v: v.replace('"@path"', '"@path" "@path"'), Reason.MALFORMED_INPUT),
            ("signature-input", lambda v: v.replace('"@path"', '"@path" "@nothing"'), Reason.UNKNOWN_COMPONENT),
            ("signature-input", lambda v: v.replace('"@path"', '"@path" "x-none"'), Reason.MISSING_COMPONENT),
            ("signature-input", lambda v: v.replace('"@path"', '"@path" "X"'), Reason.MALFORMED_INPUT),
            ("signature-input", lambda v: v.replace('"@path"', '"@path";req'), Reason.UNKNOWN_COMPONENT),
            ("signature-input", lambda v: v.replace("hmac-sha256", "ed25519"), Reason.ALGORITHM),
            ("signature-input", lambda v: v.replace('keyid="webhook"', 'keyid="nobody"'), Reason.UNKNOWN_KEY),
            ("signature-input", lambda v: v.replace(';keyid="webhook"', ""), Reason.PARAMETER_MISSING),
            ("signature-input", lambda v: v.replace('keyid="webhook"', "keyid=1"), Reason.PARAMETER_INVALID),
            ("signature-input", lambda v: v.replace(';nonce="nonce-1"', ""), Reason.PARAMETER_MISSING),
            ("signature-input", lambda v: v.replace("nonce-1", "n" * 129), Reason.PARAMETER_INVALID),
            ("signature-input", lambda v: v.replace(f";created={NOW}", ""), Reason.PARAMETER_MISSING),
            ("signature-input", lambda v: v.replace(f"={NOW}", f'="{NOW}"'), Reason.PARAMETER_INVALID),
            ("signature-input", lambda v: v.replace(f"={NOW}", f"={NOW}.0"), Reason.PARAMETER_INVALID),
            ("signature-input", lambda v: v.replace(f"={NOW}", "=-1"), Reason.PARAMETER_INVALID),
            ("signature-input", lambda v: v + ";expires=1", Reason.EXPIRED),
            ("signature-input", lambda v: v.replace(f"={NOW}", f"={NOW + 1}"), Reason.WRONG),
            ("signature-input", lambda v: v + ';tag="x"', Reason.WRONG),
        ],
    )
    def test_refusals(self, name: str, change: Any, reason: Reason) -> None:
        assert refusal(with_header(signed(), name, change)) == reason

    def test_a_key_that_is_not_configured(self) -> None:
        assert refusal(signed(), keys={"webhook": []}) == Reason.UNKNOWN_KEY

    def test_the_key_of_another_route(self) -> None:
        assert refusal(signed(key_id="operator"), keys={"webhook": [KEY]}) == Reason.UNKNOWN_KEY

    def test_the_signature_of_our_key_is_chosen_among_several(self) -> None:
        foreign = sign_request("POST", b"/a/b", b"", b"{}", key=b"x", key_id="proxy", created=NOW, nonce="p")
        request = signed()
        both = with_header(
            with_header(
                request,
                "signature-input",
                lambda v: foreign["signature-input"].replace("moorage", "proxy") + ", " + v,
            ),
            "signature",
            lambda v: foreign["signature"].replace("moorage", "proxy") + "," + v,
        )
        assert verify_request(both, b"{}", {"webhook": [KEY]}, NOW).label == "moorage"

    @given(st.binary(max_size=300), st.text(max_size=60), st.text(max_size=60))
    def test_whatever_comes_is_refused_clearly(self, body: bytes, given_input: str, signature: str) -> None:
        lines = [
            (b"signature-input", given_input.encode("utf-8", "replace")),
            (b"signature", signature.encode("utf-8", "replace")),
        ]
        with pytest.raises(Refused):
            verify_request(Request("POST", b"/", b"", lines), body, {"webhook": [KEY]}, NOW)

    @given(st.integers(0, 500), st.integers(1, 255))
    def test_one_changed_byte_is_refused(self, place: int, change: int) -> None:
        request = signed()
        lines = [list(line) for line in request.headers]
        at = place % sum(len(line[1]) for line in lines)
        for line in lines:
            if at < len(line[1]):
                line[1] = line[1][:at] + bytes([line[1][at] ^ change]) + line[1][at + 1 :]
                break
            at -= len(line[1])
        changed = Request("POST", b"/a/b", b"", [(name, value) for name, value in lines])
        # the label is not signed, white space around members is none, and base64 may end in unused bits
        try:
            verified = verify_request(changed, b"{}", {"webhook": [KEY]}, NOW)
        except Refused:
            return
        assert (verified.key_id, verified.nonce, verified.created) == ("webhook", "nonce-1", NOW)


class TestContentDigest:
    @given(st.binary(max_size=100))
    def test_of_a_body(self, body: bytes) -> None:
        check_content_digest(content_digest(body), body)
        with pytest.raises(Refused, match="content_digest_mismatch"):
            check_content_digest(content_digest(body), body + b"x")

    @given(st.text(max_size=80))
    def test_any_text_is_refused_clearly(self, text: str) -> None:
        with pytest.raises(Refused):
            check_content_digest(text, b"")

    @pytest.mark.parametrize("value", ["", "md5=:AAAA:", "sha-256=1", "sha-256=(:AAAA:)", 'sha-256="x"', "sha-256"])
    def test_what_proves_nothing(self, value: str) -> None:
        with pytest.raises(Refused, match="malformed_content_digest"):
            check_content_digest(value, b"")

    def test_every_known_digest_counts(self) -> None:
        wrong = content_digest(b"other").replace("sha-256", "sha-512")
        with pytest.raises(Refused, match="content_digest_mismatch"):
            check_content_digest(f"{content_digest(b'')}, {wrong}", b"")
        check_content_digest(f"unknown=:AAAA:, {content_digest(b'')}", b"")


class TestNonces:
    def test_once(self) -> None:
        memory = NonceMemory(NOW - 10)
        memory.admit("webhook", "a", NOW, NOW)
        memory.admit("operator", "a", NOW, NOW)
        with pytest.raises(Refused, match="nonce_replayed"):
            memory.admit("webhook", "a", NOW, NOW + 300)

    def test_before_the_start(self) -> None:
        memory = NonceMemory(NOW + 0.4)
        with pytest.raises(Refused) as caught:
            memory.admit("webhook", "a", NOW, NOW + 1)
        assert caught.value.reason == Reason.BEFORE_START
        assert caught.value.fields == {"not_before": NOW + 1}
        memory.admit("webhook", "a", NOW + 1, NOW + 1)

    def test_memory_is_bounded_and_never_forgets_into_acceptance(self) -> None:
        memory = NonceMemory(NOW, capacity=3)
        for place in range(10):
            memory.admit("webhook", str(place), NOW + place, NOW + place)
        assert len(memory) == 3
        for place in range(10):
            with pytest.raises(Refused):
                memory.admit("webhook", str(place), NOW + place, NOW + 10)

    def test_a_clock_that_is_set_back(self) -> None:
        memory = NonceMemory(NOW)
        memory.admit("webhook", "a", NOW, NOW)
        memory.admit("webhook", "b", NOW + 400, NOW + 400)
        with pytest.raises(Refused):
            memory.admit("webhook", "a", NOW, NOW + 10)

    def test_capacity_is_checked(self) -> None:
        with pytest.raises(ValueError, match="capacity"):
            NonceMemory(NOW, capacity=0)

    @given(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 400), st.integers(-400, 400)), max_size=60),
        st.integers(1, 5),
    )
    def test_no_signature_is_taken_twice(self, events: list[tuple[int, int, int]], capacity: int) -> None:
        memory = NonceMemory(NOW, capacity)
        taken: set[tuple[int, int]] = set()
        now = NOW
        for nonce, created, step in events:
            now += step
            try:
                memory.admit("webhook", str(nonce), NOW + created, now)
            except Refused:
                continue
            assert (nonce, created) not in taken
            taken.add((nonce, created))
            assert len(memory) <= capacity


class TestVersion1:
    @pytest.mark.parametrize(
        ("body", "digits"),
        [
            (b"", "c40e7a08f0768ed0e7954056429233bb350fdb01ba0f2ef6452b3485f61f072f"),
            (b"{}", "f081e236453a1f0b858c62184492ed8a76a00411f1d63d7295d15620c55f99c9"),
            (
                b'{"next_cursor":7,"expected_revision":0}',
                "9c5b41983f03b68300a8852c710b6973a0506cb6615cfe3fb9c34a7cc2fa4831",
            ),
        ],
    )
    def test_published_values(self, body: bytes, digits: str) -> None:
        assert body_hmac.sign(KEY, body) == f"sha256={digits}"
        assert body_hmac.verify([KEY], body, f"sha256={digits}".encode())
        assert body_hmac.verify([b"new", KEY], body, f"sha256={digits}".encode())
        assert not body_hmac.verify([], body, f"sha256={digits}".encode())
        assert not body_hmac.verify([KEY], body, f"sha256={digits.upper()}".encode())
        assert not body_hmac.verify([KEY], body + b" ", f"sha256={digits}".encode())

    @pytest.mark.parametrize("body", [b"\xff", b"\xef\xbb\xbf{}", b"\xed\xa0\x80", b'{"a":"\xc3"}'])
    def test_bodies_that_do_not_survive_decoding(self, body: bytes) -> None:
        assert not body_hmac.verify([KEY], body, body_hmac.sign(KEY, body).encode())

    def test_a_version_2_signature_does_not_open_version_1(self) -> None:
        request = signed()
        text = request.field("signature-input")
        assert text is not None
        base = signature_base(request, covered_of(text.removeprefix("moorage=")))
        mac = hmac.new(KEY, base, hashlib.sha256)
        assert request.field("signature") == f"moorage=:{base64.b64encode(mac.digest()).decode()}:"
        assert not body_hmac.verify([KEY], base, f"sha256={mac.hexdigest()}".encode())

    @given(st.binary(max_size=100), st.binary(max_size=80))
    def test_nothing_else_verifies(self, body: bytes, value: bytes) -> None:
        assert body_hmac.verify([KEY], body, value) is (
            value == body_hmac.sign(KEY, body).encode() and body_hmac.is_signable(body)
        )


class TestStructuredFields:
    @pytest.mark.parametrize(
        "text",
        [
            "a=",
            "a=(",
            "a=(b",
            'a=("x""y")',
            "a=1,",
            "a=1 b",
            "A=1",
            "a=:x:",
            "a=:AA:",
            'a="é"',
            'a="\\n"',
            "a=1.",
            "a=1.2345",
            "a=1234567890123456",
            "a=?2",
            "a;=1",
            "a=1;x=1;x=2",
            "=1",
            ",",
        ],
    )
    def test_malformed(self, text: str) -> None:
        with pytest.raises(Malformed):
            parse_dictionary(text)

    def test_values(self) -> None:
        parsed = parse_dictionary('a=1;p, b="x\\"y" ,\tc=:AAE=:,d=?0, e=tok/en, f, g=-1.5, a=2, l=( "x";q  1 );r=?1')
        assert parsed == {
            "b": Item('x"y', {}),
            "c": Item(b"\x00\x01", {}),
            "d": Item(False, {}),
            "e": Item(Token("tok/en"), {}),
            "f": Item(True, {}),
            "g": Item(-1.5, {}),
            "a": Item(2, {}),
            "l": InnerList((Item("x", {"q": True}), Item(1, {})), {"r": True}),
        }

    def test_too_many_members(self) -> None:
        with pytest.raises(Malformed, match="at most"):
            parse_dictionary(", ".join(f"k{place}" for place in range(100)))

    items = (
        st.booleans()
        | st.integers(-(10**15) + 1, 10**15 - 1)
        | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
        | st.binary(max_size=20)
    )
    keys = st.from_regex(r"[a-z*][a-z0-9_\-.*]{0,8}", fullmatch=True)

    @given(st.lists(items, max_size=5), st.dictionaries(keys, items, max_size=4))
    def test_what_is_written_is_read(self, values: list[Any], parameters: dict[str, Any]) -> None:
        members = InnerList(tuple(Item(value, {}) for value in values), parameters)
        parsed = parse_dictionary(f"sig={serialize_inner_list(members)}")["sig"]
        assert parsed == members
        assert isinstance(parsed, InnerList)
        assert [type(item.value) for item in parsed.items] == [type(value) for value in values]

    @given(st.text(max_size=80))
    def test_any_text_parses_or_is_malformed(self, text: str) -> None:
        try:
            parse_dictionary(text)
        except Malformed:
            pass

    def test_what_has_no_form(self) -> None:
        for value in ("\n", "é", 10**15):
            with pytest.raises(Malformed):
                serialize_bare(value)
        assert serialize_bare(1.5) == "1.5"
        assert serialize_bare(2.0) == "2.0"
