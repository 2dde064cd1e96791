"""State blobs: paths, prefixes, base64, ranges, limits, and what an existing blob means."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols import blobs as rules
from moorage.protocols.javascript import ABSENT
from moorage.protocols.json_body import NotJson, parse_as
from moorage.protocols.wire import WireError
from moorage.protocols.wire import blobs as errors

HEX = hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize(
    ("path", "immutable"),
    [
        ("ledger/v1/a", True),
        ("ledger/v1/2026/08/a-b_c.@+d", True),
        ("assets/a", False),
        ("assets/_", False),
        (f"artifacts/exact-review/v1/{HEX}", True),
        ("assets/" + "a" * 255, False),
        ("assets/" + "a" * 255 + "/b", False),
    ],
)
def test_paths(path: str, immutable: bool) -> None:
    assert rules.parse_path(path).immutable is immutable
    assert rules.parse_path(path).text == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "assets",
        "assets/",
        "assets//a",
        "assets/a/",
        "assets/../a",
        "assets/.a",
        "assets/-a",
        "assets/a\n",
        "assets/é",
        "assets/" + "a" * 256,
        "assets" + "/abcdefgh" * 100,
        "ledger/v2/a",
        "/assets/a",
        "artifacts/exact-review/v1/x",
        f"artifacts/exact-review/v1/{HEX}\n",
        f"artifacts/exact-review/v1/{HEX.upper()}",
        None,
        7,
        ["assets/a"],
        {},
        ABSENT,
        "assets/a\0",
        "assets/CON\\x",
        "assets/%2e",
    ],
)
def test_bad_paths(path: Any) -> None:
    with pytest.raises(errors.InvalidBlobPath):
        rules.parse_path(path)


def test_the_longest_path() -> None:
    path = "assets/" + "a" * 255 + "/" + "b" * 255 + "/" + "c" * 255 + "/" + "d" * (900 - 7 - 3 * 256)
    assert len(path) == 900
    rules.parse_path(path)
    with pytest.raises(errors.InvalidBlobPath):
        rules.parse_path(path + "d")


@pytest.mark.parametrize(
    ("prefix", "directory"),
    [
        ("assets", "assets/"),
        ("assets/", "assets/"),
        ("ledger/v1", "ledger/v1/"),
        ("assets/a/b", "assets/a/b/"),
        ("artifacts/exact-review/v1", "artifacts/exact-review/v1/"),
        ("assets/a.txt", "assets/a.txt/"),
    ],
)
def test_prefixes(prefix: str, directory: str) -> None:
    assert rules.parse_prefix(prefix) == directory


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "/",
        "ledger",
        "ledger/",
        "assetsx",
        "assets/..",
        "assets//",
        "assets/a//b",
        "assets/.a",
        "Assets",
        "assets/a b",
        "artifacts",
        None,
        1,
        ABSENT,
    ],
)
def test_bad_prefixes(prefix: Any) -> None:
    with pytest.raises(errors.InvalidBlobPrefix):
        rules.parse_prefix(prefix)


@given(st.text(max_size=40))
def test_any_text_is_a_safe_path_or_refused(text: str) -> None:
    for candidate in (text, f"assets/{text}", f"ledger/v1/{text}"):
        try:
            path = rules.parse_path(candidate)
        except errors.InvalidBlobPath:
            continue
        segments = path.text.split("/")
        assert path.text.isascii()
        assert all(segment and segment[0] not in ".-" for segment in segments)
        assert rules.parse_prefix(path.text) == path.text + "/"


class TestDigests:
    def test_artifact_paths_end_in_their_digest(self) -> None:
        path = rules.parse_path(f"artifacts/exact-review/v1/{HEX}")
        assert rules.parse_digest(path, HEX) == HEX
        with pytest.raises(errors.ArtifactBlobKeyDigestMismatch):
            rules.parse_digest(path, "0" * 64)

    @pytest.mark.parametrize(
        "value", [HEX.upper(), HEX[:-1], f"sha256:{HEX}", f" {HEX}", f"{HEX}\n", None, 1, ABSENT]
    )
    def test_bad_digests(self, value: Any) -> None:
        with pytest.raises(errors.InvalidBlobDigest):
            rules.parse_digest(rules.parse_path("assets/a"), value)
        assert rules.known_digest(value) is None


class TestContent:
    @given(st.binary(max_size=200))
    def test_base64_round_trip(self, content: bytes) -> None:
        text = base64.b64encode(content).decode()
        assert rules.decode_content(text, 200, errors.BlobTooLarge) == content

    @given(st.text(alphabet="AQYZa+/=-_ \n", max_size=16))
    def test_strict(self, text: str) -> None:
        try:
            content = rules.decode_content(text, 100, errors.BlobTooLarge)
        except errors.InvalidBlobContent:
            return
        assert base64.b64decode(text, validate=True) == content
        assert len(text) % 4 == 0

    def test_limits(self) -> None:
        nine = base64.b64encode(b"123456789").decode()
        assert len(rules.decode_content(nine, 9, errors.BlobTooLarge)) == 9
        with pytest.raises(errors.BlobTooLarge) as caught:
            rules.decode_content(nine, 8, errors.BlobTooLarge)
        assert caught.value.body() == {
            "error": "blob_too_large",
            "maxBytes": 8,
            "detail": "use the multipart upload endpoints for larger blobs",
        }
        with pytest.raises(errors.BlobPartTooLarge) as part:
            rules.decode_content(nine, 8, errors.BlobPartTooLarge)
        assert part.value.body() == {"error": "blob_part_too_large", "maxBytes": 8}
        for padded, size in (("YQ==", 1), ("YWI=", 2), ("YWJj", 3)):
            assert len(rules.decode_content(padded, size, errors.BlobTooLarge)) == size
            with pytest.raises(errors.BlobTooLarge):
                rules.decode_content(padded, size - 1, errors.BlobTooLarge)

    def test_garbage_beyond_the_limit_is_garbage(self) -> None:
        with pytest.raises(errors.InvalidBlobContent):
            rules.decode_content("####" * 10, 3, errors.BlobTooLarge)


def _verdict(body: rules.Body) -> bytes | str:
    try:
        return rules.decode_content(body.contentBase64, 6, errors.BlobTooLarge)
    except WireError as error:
        return error.code


class TestContentBody:
    """Content that is decoded with the body is what the rule makes of it as text."""

    @given(st.text(alphabet='AQYZaz09+/=-_ \n"\\\u00e9\u2028', max_size=13), st.booleans())
    def test_as_the_rule(self, text: str, escaped: bool) -> None:
        data = json.dumps({"path": 1, "contentBase64": text}, ensure_ascii=escaped).replace("+", "\\u002b").encode()
        body = rules.parse_content_body(data)
        assert body.path == 1
        assert _verdict(body) == _verdict(parse_as(rules.Body, data))

    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            ('{"contentBase64":"eA=="}', b"x"),
            ('{"contentBase64":""}', b""),
            ('{"contentBase64":"eB=="}', b"x"),  # bits beyond the last byte are ignored
            ('{"contentBase64":"\\u0065A=="}', b"x"),
            ('{"contentBase64":"!","contentBase64":"eA=="}', b"x"),  # the last member counts
            ('{"contentBase64":"eA==","contentBase64":"!"}', "invalid_blob_content"),
            ('{"contentBase64":"eA"}', "invalid_blob_content"),
            ('{"contentBase64":"AAAA===="}', "invalid_blob_content"),
            ('{"contentBase64":null}', "invalid_blob_content"),
            ('{"contentBase64":[120]}', "invalid_blob_content"),
            ("{}", "invalid_blob_content"),
            ('{"contentBase64":"\\ud800"}', "invalid_blob_content"),
            ('{"contentBase64":"AAAAAAAAAAA="}', "blob_too_large"),
            ('{"contentBase64":"AAAAAAAAAAAA!"}', "invalid_blob_content"),
        ],
    )
    def test_cases(self, text: str, verdict: bytes | str) -> None:
        assert _verdict(rules.parse_content_body(text.encode())) == verdict

    @pytest.mark.parametrize("data", [b"", b"[]", b'"x"', b'{"contentBase64":"eA=="', b"\xff", b"[" * 100_000])
    def test_what_is_no_object(self, data: bytes) -> None:
        with pytest.raises(NotJson):
            rules.parse_content_body(data)


def test_ranges() -> None:
    assert rules.parse_range(rules.Body(offset="2", length="3")) == (2, 3)
    assert rules.parse_range(rules.Body(offset=None, length=1)) == (0, 1)
    for offset, length in ((-1, 1), (0, 0), (0, 33554433), (1.5, 1), (ABSENT, 1), (0, ABSENT)):
        with pytest.raises(errors.InvalidBlobRange):
            rules.parse_range(rules.Body(offset=offset, length=length))


def test_numbers() -> None:
    assert rules.parse_limit(ABSENT) == 1000
    assert rules.parse_limit("2") == 2
    assert rules.parse_bytes(1) == 1
    assert rules.parse_bytes(2**30) == 2**30
    assert rules.parse_part_number(10_000) == 10_000
    limits: list[Any] = [0, 1001, 1.5, "x", None]
    refused: list[tuple[Any, Any, type[WireError]]] = [
        (rules.parse_limit, value, errors.InvalidBlobListLimit) for value in limits
    ]
    sizes: list[Any] = [0, 2**30 + 1, None, ABSENT, "x"]
    refused += [(rules.parse_bytes, value, errors.InvalidBlobBytes) for value in sizes]
    numbers: list[Any] = [0, 10_001, ABSENT, {}]
    refused += [(rules.parse_part_number, value, errors.InvalidBlobPartNumber) for value in numbers]
    ids: list[Any] = ["", None, 1, ABSENT, "u" * 4097]
    refused += [(rules.parse_upload_id, value, errors.InvalidBlobUpload) for value in ids]
    cursors: list[Any] = [1, [], "c" * 9000]
    refused += [(rules.parse_cursor, value, errors.InvalidBlobListCursor) for value in cursors]
    for rule, value, error in refused:
        with pytest.raises(error):
            rule(value)
    assert [rules.parse_cursor(value) for value in (None, "", ABSENT, "x")] == [None, None, None, "x"]


def test_parts() -> None:
    assert rules.parse_parts([{"partNumber": "1", "etag": "e", "more": 1}]) == [{"partNumber": 1, "etag": "e"}]
    bad_parts: list[Any] = [
        [],
        None,
        {},
        [1],
        [{"partNumber": 0, "etag": "e"}],
        [{"partNumber": 1}],
        [{"partNumber": 1, "etag": None}],
        [{"partNumber": 1, "etag": 5}],
        [{"partNumber": 1.5, "etag": "e"}],
        [{"etag": "e"}],
        [["partNumber", 1]],
        [{"partNumber": 1, "etag": "e"}, None],
        [{"partNumber": 1, "etag": "e"}] * 10_001,
    ]
    for value in bad_parts:
        with pytest.raises(errors.InvalidBlobParts):
            rules.parse_parts(value)


def test_parts_that_no_upload_has() -> None:
    first: dict[str, Any] = {"partNumber": 1, "etag": "e"}
    rules.check_parts(rules.parse_parts([first, {"partNumber": 10_000, "etag": "e"}]))
    lists: list[list[dict[str, Any]]] = [
        [first, {"partNumber": "1", "etag": "e"}],
        [{"partNumber": 1, "etag": ""}],
        [{"partNumber": 10_001, "etag": "e"}],
        [first, {"partNumber": 2**53 - 1, "etag": "e"}],
    ]
    for parts in lists:
        with pytest.raises(errors.InvalidBlobUpload):
            rules.check_parts(rules.parse_parts(parts))


class TestExisting:
    ledger = rules.parse_path("ledger/v1/a")
    asset = rules.parse_path("assets/a")

    @pytest.mark.parametrize("path", [ledger, asset])
    def test_none_and_same(self, path: rules.BlobPath) -> None:
        assert rules.compare(path, None, HEX, 1) is rules.Existing.NONE
        assert rules.compare(path, rules.Blob(path.text, 1, HEX, True), HEX, 1) is rules.Existing.SAME

    @pytest.mark.parametrize(("digest", "size"), [(HEX, 2), ("0" * 64, 1), (None, 1)])
    def test_another(self, digest: str | None, size: int) -> None:
        assert rules.compare(self.asset, rules.Blob("assets/a", size, digest, True), HEX, 1) is rules.Existing.REPLACE
        existing = rules.Blob("ledger/v1/a", size, digest, True)
        assert rules.compare(self.ledger, existing, HEX, 1) is rules.Existing.CONFLICT
        assert rules.conflict(self.ledger, existing).body() == {
            "error": "ledger_blob_immutable_conflict",
            "path": "ledger/v1/a",
            "existingBytes": size,
            "existingDigest": digest,
        }

    def test_artifacts_have_a_code_of_their_own(self) -> None:
        path = rules.parse_path(f"artifacts/exact-review/v1/{HEX}")
        error = rules.conflict(path, rules.Blob(path.text, 2, None, False))
        assert (error.code, error.status) == ("artifact_blob_immutable_conflict", 409)
