"""The pure rules: conditions, ranges, names, listings, parts, metadata."""

import base64
import hashlib
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.r2.arguments import integer, merge_options, milliseconds, number_text, text_of, well_formed
from moorage.r2.assembly import MIN_PART_BYTES, StoredPart, assemble, part_number, parts_of
from moorage.r2.backend import Query, Record, UploadedPart
from moorage.r2.backends.s3_calls import unwrap_upload, wrap_upload
from moorage.r2.backends.s3_metadata import decode_entry, encode_entry
from moorage.r2.checksums import SIZES, checksum_of
from moorage.r2.conditions import WILDCARD, Condition, Etag, Strength, condition_of, parse_etags
from moorage.r2.errors import (
    BadUpload,
    EntityTooSmall,
    InternalError,
    InvalidCondition,
    InvalidObjectName,
    InvalidPart,
    MetadataTooLarge,
    RangeError,
    RangeNotSatisfiable,
)
from moorage.r2.keys import check_key, decode_cursor, encode_cursor, last_key_below, successor
from moorage.r2.listing import page_of
from moorage.r2.metadata import check_custom_metadata, http_metadata_of
from moorage.r2.ranges import RangeHeader, RangeRequest, Span, range_of

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


class Headers:
    def __init__(self, **fields: str) -> None:
        self._fields = {name.replace("_", "-"): value for name, value in fields.items()}

    def get(self, name: str) -> str | None:
        return self._fields.get(name)


def strong(value: str) -> Etag:
    return Etag(Strength.STRONG, value)


def weak(value: str) -> Etag:
    return Etag(Strength.WEAK, value)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ('"a"', (strong("a"),)),
        ('"a", W/"b" ,"c,d"', (strong("a"), weak("b"), strong("c,d"))),
        ('"a",,, "b"', (strong("a"), strong("b"))),
        (', "a"', (strong("a"),)),
        ("*", (WILDCARD,)),
        ('"a", *', (WILDCARD,)),
        ('""', (strong(""),)),
        ('"a*"', (strong("a*"),)),
        ("plain", ()),
        ("", ()),
    ],
)
def test_etags(text: str, tags: tuple[Etag, ...]) -> None:
    assert parse_etags(text) == tags


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"a" "b"', "Comma was expected to separate etags. Encountered a double quote character"),
        ('"a" W/"b"', "Comma was expected to separate etags. Encountered a weak quotation character 'W' instead."),
        ('"a" *', "Comma was expected to separate etags. Encountered a wildcard character '*' instead."),
        ('"a', "Unclosed double quote for Etag"),
        ('W"a"', "Weak etags must start with W/ and their value must be quoted"),
    ],
)
def test_etags_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(InvalidCondition, match=f"^{re.escape(message)}"):
        parse_etags(text)


@given(st.text(max_size=40) | st.text('"*,W/ a', max_size=20))
def test_etags_never_crash(text: str) -> None:
    try:
        tags = parse_etags(text)
    except InvalidCondition:
        return
    assert tags or '"' not in text


@given(st.lists(st.tuples(st.booleans(), st.text("abc,-W*", max_size=5)), min_size=1, max_size=4))
def test_etags_that_were_written_are_read(tags: list[tuple[bool, str]]) -> None:
    text = ", ".join(f'{"W/" if is_weak else ""}"{value}"' for is_weak, value in tags)
    assert parse_etags(text) == tuple(weak(value) if is_weak else strong(value) for is_weak, value in tags)


def test_weak_tags_match_only_weakly() -> None:
    assert not Condition(etag_matches=(weak("a"),)).holds("a", 0)
    assert not Condition(etag_does_not_match=(weak("a"),)).holds("a", 0)
    assert Condition(etag_does_not_match=(weak("b"),)).holds("a", 0)


def test_dates_of_headers_go_by_seconds() -> None:
    condition = condition_of(Headers(if_modified_since="Wed, 21 Oct 2026 07:28:00 GMT"), "GetOptions")
    assert condition is not None
    assert not condition.holds("a", 1_792_567_680_999)
    assert condition.holds("a", 1_792_567_681_000)


def test_conditions_of_options() -> None:
    assert condition_of({}, "GetOptions") is None
    assert condition_of(Headers(), "GetOptions") is None
    with pytest.raises(TypeError, match=re.escape('Conditional ETag should not be wrapped in quotes ("a").')):
        condition_of({"etagMatches": '"a"'}, "GetOptions")
    with pytest.raises(TypeError, match="'etagMatches' field on 'Conditional'"):
        condition_of({"etagMatches": 5}, "GetOptions")
    with pytest.raises(TypeError, match="'onlyIf' field on 'PutOptions'"):
        condition_of("a", "PutOptions")
    with pytest.raises(TypeError, match="'uploadedAfter' field"):
        condition_of({"uploadedAfter": "yesterday"}, "PutOptions")
    with pytest.raises(InvalidCondition, match="Invalid ETag in if-none-match header"):
        condition_of(Headers(if_none_match="plain"), "GetOptions")
    with pytest.raises(TypeError, match="not a valid Date"):
        condition_of(Headers(if_modified_since="soon"), "GetOptions")


numbers = st.none() | st.integers(0, 30)


@given(numbers, numbers, numbers, st.integers(0, 20))
def test_a_range_is_within_the_object(offset: int | None, length: int | None, suffix: int | None, size: int) -> None:
    asked = RangeRequest(offset, length, None) if suffix is None else RangeRequest(suffix=suffix)
    data = bytes(range(size))
    try:
        span = asked.resolve(size)
    except RangeNotSatisfiable:
        start = offset or 0
        assert suffix == 0 or size == 0 or length == 0 or start >= size
        return
    assert span.length > 0
    served = data[span.offset : span.offset + span.length]
    assert len(served) == span.length
    if suffix is not None:
        assert served == data[-suffix:]
    else:
        assert served == data[offset or 0 :][: size if length is None else length]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("bytes=2-4", Span(2, 3)),
        (" BYTES = 2 - 4 ", Span(2, 3)),
        ("bytes=7-", Span(7, 3)),
        ("bytes=-2", Span(8, 2)),
        ("bytes=8-100", Span(8, 2)),
        ("bytes=-0,2-3", Span(2, 2)),
        ("bytes=-0", Span(0, 10)),
        ("bytes=-10", Span(0, 10)),
        ("bytes=4-2", Span(0, 10)),
        ("bytes=10-", Span(0, 10)),
        ("bytes=1-2,3-4", Span(0, 10)),
        ("bytes=-", Span(0, 10)),
        ("bytes=", Span(0, 10)),
        ("lines=1-2", Span(0, 10)),
        ("bytes=1-x", Span(0, 10)),
    ],
)
def test_range_headers(text: str, span: Span) -> None:
    assert RangeHeader(text).resolve(10) == span


@given(st.text("bytes=-, 0123456789", max_size=20), st.integers(0, 12))
def test_range_headers_never_crash(text: str, size: int) -> None:
    span = RangeHeader("bytes=" + text).resolve(size)
    assert 0 <= span.offset <= span.offset + span.length <= size


def test_ranges_of_options() -> None:
    assert range_of(None) is None
    assert range_of(Headers()) is None
    with pytest.raises(RangeError, match=re.escape("Invalid range. Length (1.5) must be an integer")):
        range_of({"length": 1.5})
    with pytest.raises(RangeError, match=re.escape("Invalid suffix. Suffix (-1) must be greater")):
        range_of({"suffix": -1})
    with pytest.raises(TypeError, match="Suffix is incompatible with length"):
        range_of({"suffix": 1, "length": 1})
    with pytest.raises(TypeError, match="'range' field on 'GetOptions'"):
        range_of("0-1")
    with pytest.raises(RangeError):
        range_of({"offset": float("nan")})


@given(texts)
def test_cursors_come_back(position: str) -> None:
    assert decode_cursor(encode_cursor(position)) == position


@given(st.text(max_size=40))
def test_what_is_no_cursor_never_crashes(cursor: str) -> None:
    assert isinstance(decode_cursor(cursor), str)


@given(st.binary(max_size=4), st.binary(max_size=4), st.binary(max_size=6))
def test_the_successor_bounds_what_begins_with_a_prefix(prefix: bytes, rest: bytes, other: bytes) -> None:
    high = successor(prefix)
    if high is None:
        assert not prefix.strip(b"\xff")
        return
    assert prefix + rest < high
    if other > prefix and not other.startswith(prefix):
        assert other >= high


@given(
    st.sets(st.text("ab/", max_size=5), max_size=20),
    st.text("ab/", max_size=2),
    st.sampled_from(["", "/", "a", "b/"]),
    st.none() | st.text("ab/", max_size=3),
    st.integers(1, 6),
)
def test_listing_pages_equal_the_definition(
    keys: set[str], prefix: str, delimiter: str, after: str | None, limit: int
) -> None:
    ordered = sorted(key.encode() for key in keys)

    def scan(low: bytes, high: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        return [(key, key) for key in ordered if low <= key and (high is None or key < high)][:count]

    def record(key: bytes) -> Record:
        return Record(key.decode(), "v", 0, "e", 0)

    expected: list[str] = []
    for key in sorted(keys):
        if not key.startswith(prefix) or (after is not None and key <= after):
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if at < 0 else key[: at + len(delimiter)] + "…"
        if not expected or expected[-1] != name:
            expected.append(name)
    seen: list[str] = []
    position = after
    while True:
        page = page_of(Query(prefix, position, delimiter, limit), scan, record)
        names = sorted([item.key for item in page.records] + [f"{group}…" for group in page.prefixes])
        assert len(names) <= limit
        seen += names
        if page.position is None:
            break
        assert len(names) == limit
        position = page.position
    assert sorted(seen) == sorted(expected)
    assert len(seen) == len(set(seen))


def test_the_last_key_below_a_group() -> None:
    assert last_key_below("a/") > "a/\U0010fffe" * 3
    check_key(last_key_below("a/"))
    assert len(last_key_below("x" * 1022).encode()) > 1022


def test_names() -> None:
    check_key("é" * 512)
    with pytest.raises(InvalidObjectName):
        check_key("é" * 513)
    assert well_formed("\ud83d\ude00\ud800") == "😀\ufffd"


@given(
    st.dictionaries(st.integers(1, 5), st.sampled_from([1, MIN_PART_BYTES, MIN_PART_BYTES + 1]), max_size=4),
    st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=4),
)
def test_parts_that_are_put_together_keep_the_rules(sizes: dict[int, int], named: list[tuple[int, bool]]) -> None:
    stored = {number: StoredPart(number, f"e{number}", size) for number, size in sizes.items()}
    chosen = [UploadedPart(number, f"e{number}" if right else "wrong") for number, right in named]
    try:
        parts = assemble(stored, chosen)
    except InternalError:
        assert len({number for number, _ in named}) < len(named)
        return
    except InvalidPart:
        assert any(not right or number not in stored for number, right in named)
        return
    except (EntityTooSmall, BadUpload):
        assert len(named) > 1
        return
    assert [part.number for part in parts] == sorted(number for number, _ in named)
    assert len({part.size for part in parts[:-1]}) <= 1
    assert all(part.size >= MIN_PART_BYTES for part in parts[:-1])
    assert len(parts) < 2 or parts[-1].size <= parts[0].size


def test_part_numbers() -> None:
    assert part_number(1.9) == 1
    assert part_number("7") == 7
    for wrong in (0, -1, 10_001, "x", None, float("inf")):
        with pytest.raises(TypeError, match="Part number must be between 1 and 10000"):
            part_number(wrong)
    with pytest.raises(TypeError, match="'etag' field"):
        parts_of([{"partNumber": 1}])
    with pytest.raises(TypeError, match="not of type 'Array'"):
        parts_of("ab")


def test_checksums() -> None:
    assert checksum_of({}) is None
    for algorithm, size in SIZES.items():
        found = checksum_of({algorithm: bytes(size)})
        assert found is not None
        assert found.digest == "00" * size
    with pytest.raises(TypeError, match="SHA-256 is 32 bytes, not 3"):
        checksum_of({"sha256": b"abc"})
    with pytest.raises(TypeError, match="You cannot specify multiple hashing algorithms"):
        checksum_of({"md5": "0" * 32, "sha1": "0" * 40})
    with pytest.raises(TypeError, match="'md5' field on 'PutOptions'"):
        checksum_of({"md5": 5})


def test_custom_metadata_limit() -> None:
    check_custom_metadata({"k": "v" * 1000, "j": "\xe9" * 1046})
    with pytest.raises(MetadataTooLarge):
        check_custom_metadata({"k": "v" * 1000, "j": "\xe9" * 1047})
    check_custom_metadata({"k": "😀" * 511})
    with pytest.raises(MetadataTooLarge):
        check_custom_metadata({"k": "😀" * 512})


def test_http_metadata() -> None:
    assert http_metadata_of(Headers(content_type="a/b", x_other="no"), "PutOptions").stored() == {
        "contentType": "a/b"
    }
    assert http_metadata_of({"contentType": 5, "unknown": 1}, "PutOptions").stored() == {"contentType": "5"}
    with pytest.raises(TypeError, match="'httpMetadata' field on 'PutOptions'"):
        http_metadata_of("text/plain", "PutOptions")


def test_arguments() -> None:
    assert [number_text(value) for value in (1, 1.0, 1.5, -0.0, True, float("nan"))] == [
        "1",
        "1",
        "1.5",
        "0",
        "true",
        "NaN",
    ]
    assert [text_of(value) for value in ("a", 7, 7.0, None, False)] == ["a", "7", "7", "null", "false"]
    assert [integer(value) for value in (1.9, "12", "x", None, float("nan"), -1.5)] == [1, 12, 0, 0, 0, -1]
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, UTC), "f", "S") == 1000
    naive = datetime(2026, 1, 1, 12)
    assert milliseconds(naive, "f", "S") == round(naive.timestamp() * 1000)
    assert merge_options({"a": 1, "b": None, "z": 1}, {"b": 2}, {"a", "b"}, "m", 2, "O") == {"a": 1, "b": 2}
    with pytest.raises(
        TypeError, match="Failed to execute 'get' on 'R2Bucket': parameter 2 is not of type 'GetOptions'"
    ):
        merge_options("x", {}, {"a"}, "get", 2, "GetOptions")


@given(st.dictionaries(texts, st.text(max_size=20).map(well_formed), max_size=5))
def test_metadata_entries_come_back(value: dict[str, str]) -> None:
    text = encode_entry({"v": "1", "m": value})
    assert text.isascii()
    assert decode_entry(text) == {"v": "1", "m": value}


@given(st.text(max_size=30))
def test_foreign_metadata_entries_are_ignored(text: str) -> None:
    assert isinstance(decode_entry(text), dict)


@given(texts, st.text("abc._-", min_size=1, max_size=60))
def test_upload_ids_come_back_with_their_key_only(key: str, upload: str) -> None:
    version = "0123456789abcdef" * 2
    wrapped = wrap_upload(key, upload, version)
    assert len(wrapped) == 171
    assert unwrap_upload(key, wrapped) == (upload, version)
    assert unwrap_upload(key + "x", wrapped) == (wrapped, None)
    assert unwrap_upload(key, upload) == (upload, None)


def test_upload_ids_of_before_are_known() -> None:
    """They carry no version; uploads may be open for days."""
    text = b"upload-id"
    check = hashlib.sha256(b"k\0" + text).digest()[:8]
    wrapped = base64.urlsafe_b64encode((check + text).ljust(128, b"\0")).decode().rstrip("=")
    assert unwrap_upload("k", wrapped) == ("upload-id", "")
