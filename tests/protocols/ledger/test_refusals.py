"""One refusal after another: each names its class, and what would have been right."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from moorage.protocols.ledger import batch, bindings, publication, segments
from moorage.protocols.ledger.canonical import canonical_digest, canonical_text
from moorage.protocols.ledger.events import build_event
from moorage.protocols.ledger.hosts import is_private_url
from moorage.protocols.ledger.markers import IMPORT_LOCK, PRODUCER_LOCK, LockOwner, parse_lock, parse_seal, seal_of
from moorage.protocols.ledger.order import unique_events
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.shards import ShardIdentity, build_shards
from moorage.protocols.ledger.text import event_key_text
from moorage.protocols.ledger.urls import parse_https
from moorage.protocols.ledger.validate import validate_record

from .support import IDENTITY, an_event, given_event

WHO = ShardIdentity.of_input(IDENTITY)
(SHARD,) = build_shards(WHO, [an_event(1), an_event(2)])
PATH = SHARD.path


def refused(call: Callable[[], Any]) -> str:
    """The class that `call` is refused under."""
    with pytest.raises(LedgerRefusal) as caught:
        call()
    assert caught.value.detail
    return caught.value.code


def test_a_refusal_is_placed_from_the_outside_in() -> None:
    inner = LedgerRefusal("code", "must be right", "line 3")
    assert str(inner.at("file")) == "file: line 3: must be right (code)"
    assert str(LedgerRefusal("code", "must be right")) == "must be right (code)"


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        ([], "manifest-empty"),
        ([PATH] * 257, "manifest-empty"),
        ([PATH, PATH], "manifest-order"),
        (["README.md"], "path-syntax"),
        ([1], "path-syntax"),
    ],
)
def test_expected_paths(paths: list[Any], code: str) -> None:
    assert refused(lambda: batch.check_expected_paths(paths)) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "manifest-empty"),
        ("\n\n", "manifest-empty"),
        ("README.md\n", "path-syntax"),
        (f"{PATH}\n{PATH}\n", "manifest-order"),
        ("x" * (publication.MAX_PATHS * publication.MAX_PATH_BYTES + 1), "byte-limit"),
        ("x\n" * (publication.MAX_PATHS + 1), "collection-size"),
    ],
)
def test_path_lists(text: str, code: str) -> None:
    assert refused(lambda: publication.parse_path_list(text)) == code
    assert publication.parse_path_list(f"{PATH}\n\n") == [PATH]


@pytest.mark.parametrize(
    ("path", "content", "code"),
    [
        (PATH, SHARD.text[:-1], "framing"),
        (PATH, "x\n" * 2049, "line-limit"),
        (PATH, "x\n" * 1025, "event-limit"),
        (PATH, "\n", "framing"),
        (PATH.replace("000001-of-000001", "000002-of-000001"), SHARD.text, "path-identity"),
        (PATH.replace("2026/07/12", "2026/07/13"), SHARD.text, "path-identity"),
        (PATH.replace("2026/07/12", "2026/13/12"), SHARD.text, "calendar-date"),
        ("ledger/v1/events/x.jsonl", SHARD.text, "path-syntax"),
    ],
)
def test_source_shards(path: str, content: str, code: str) -> None:
    assert refused(lambda: batch.parse_source_shard(path, content)) == code


def test_shards_hold_at_most_1024_events() -> None:
    assert refused(lambda: batch.check_shard_events([an_event(1)] * 1025)) == "event-limit"
    assert refused(lambda: batch.check_shard_events([])) == "empty-shard"


def test_equal_digests_with_other_metadata_are_a_conflict() -> None:
    event = an_event(1)
    record = json.loads(event.line)
    changed = type(event).of_record(
        {**record, "event_key": "review.item:" + "0" * 64}, event.line.replace("review.item:", "x:")
    )
    assert refused(lambda: unique_events([event, changed])) == "duplicate-metadata"


@pytest.mark.parametrize(
    "changes", [{"schema_version": True}, {"schema_version": 1.5}, {"schema": "x"}, {"phase_seq": "1"}]
)
def test_constants_are_what_they_are(changes: dict[str, Any]) -> None:
    record = {**json.loads(an_event(1).line), **changes}
    assert refused(lambda: validate_record(record)) == "schema"


def test_a_long_record_is_measured() -> None:
    long = build_event(
        given_event(1, subject={"repository": f"o/{'r' * 300_000}", "kind": "issue"}),
        recorded_at="2026-07-12T10:00:00Z",
    )
    assert canonical_text(long.record) == long.line
    given = given_event(1, subject={"repository": f"o/{'r' * 1_100_000}", "kind": "issue"})
    assert refused(lambda: build_event(given, recorded_at="2026-07-12T10:00:00Z")) == "bytes"


def test_locks_are_of_their_own_kind() -> None:
    owner = LockOwner(1, "a" * 64, 0, "01234567-89ab-cdef-0123-456789abcdef")
    assert parse_lock(owner.text(PRODUCER_LOCK), PRODUCER_LOCK) == owner
    assert refused(lambda: parse_lock(owner.text(IMPORT_LOCK), PRODUCER_LOCK)) == "lock-invalid"
    for wrong in (
        LockOwner(0, "a" * 64, 0, owner.nonce),
        LockOwner(1, "A" * 64, 0, owner.nonce),
        LockOwner(1, "a" * 64, -1, owner.nonce),
        LockOwner(1, "a" * 64, 0, "no uuid"),
    ):
        assert refused(partial(parse_lock, wrong.text(PRODUCER_LOCK), PRODUCER_LOCK)) == "lock-invalid"


def test_seals_are_of_their_producer() -> None:
    seal = seal_of(WHO.producer(), "2026-07-12", [an_event(1)])
    assert parse_seal(seal.text(), WHO.producer()) == seal
    other = {**WHO.producer(), "job": "other"}
    assert refused(lambda: parse_seal(seal.text(), other)) == "seal-invalid"
    empty = seal_of(WHO.producer(), "2026-07-12", [])
    assert refused(lambda: parse_seal(empty.text(), WHO.producer())) == "seal-invalid"


def test_reservations_say_what_they_reserve() -> None:
    binding = bindings.shard_set_binding(WHO, [SHARD])
    found = bindings.parse_reservation(binding.path, binding.text)
    assert (found.identity, found.shards) == (WHO, ((PATH, SHARD.replay_sha256),))
    value = json.loads(binding.text)
    changes: list[dict[str, Any]] = [
        {"shards": []},
        {"shards": [1]},
        {"shards": [{"path": PATH}]},
        {"shards": [{"path": PATH, "replay_sha256": "x"}]},
        {"producer": {**value["producer"], "job": "other"}},
        {"producer": []},
        {"schema": "x"},
    ]
    for change in changes:
        text = canonical_text({**value, **change}) + "\n"
        assert refused(partial(bindings.parse_reservation, binding.path, text)) == "import-transaction"
    assert refused(lambda: bindings.parse_event_binding(binding.text, "0" * 64)) == "binding-invalid"
    event = json.loads(bindings.event_binding(an_event(1)).text)
    for change in ({"event_id": "0" * 64}, {"semantic_sha256": "x"}, {"parent_event_id": event["event_id"]}):
        text = canonical_text({**event, **change}) + "\n"
        assert refused(partial(bindings.parse_event_binding, text, event["event_id"])) == "binding-invalid"


def test_segments_are_whole_or_invalid() -> None:
    stored = segments.StoredShard(PATH, SHARD.text, 2, SHARD.replay_sha256, None)
    segment, payload = segments.build_segment([stored])
    assert payload == SHARD.text
    assert segments.parse_segment(segment.manifest_path, segment.manifest_text) == segment
    value = json.loads(segment.manifest_text)
    (entry,) = value["shards"]
    changes: list[dict[str, Any]] = [
        {"extra": 1},
        {"schema": "x"},
        {"payload_sha256": "x"},
        {"shards": {}},
        {"shards": []},
        {"shards": [{**entry, "extra": 1}]},
        {"shards": [{**entry, "sha256": "x"}]},
        {"shards": [{**entry, "offset": 1}]},
        {"shards": [{**entry, "path": PATH.replace("2026/07", "2026/08")}]},
        {"payload_bytes": 1},
        {"month": "2026/08"},
    ]
    for change in changes:
        changed = {**value, **change}
        text = canonical_text(changed) + "\n"
        path = f"{segments.ROOT}/2026/07/{canonical_digest(changed)}.json"
        assert refused(partial(segments.parse_segment, path, text)) == "segment-invalid", change
    assert refused(lambda: segments.parse_segment("x.json", segment.manifest_text)) == "segment-invalid"
    assert refused(lambda: segments.parse_segment(segment.manifest_path, "{")) == "segment-invalid"
    assert refused(lambda: segments.build_segment([])) == "empty-segment"
    assert refused(lambda: segments.build_segment([stored, stored])) == "manifest-order"
    assert refused(lambda: segments.month_of("README.md")) == "path-syntax"


def test_segments_are_cut_by_bytes_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(f"p{index}", 10) for index in range(5)]
    monkeypatch.setattr(segments, "MAX_PAYLOAD_BYTES", 25)
    assert list(segments.group_shards(sizes)) == [["p0", "p1"], ["p2", "p3"], ["p4"]]
    monkeypatch.setattr(segments, "MAX_SHARDS", 1)
    assert list(segments.group_shards(sizes)) == [[path] for path, _ in sizes]
    assert list(segments.group_shards([])) == []


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://[::FFFF:1.2.3.4]:443/x", "[::ffff:102:304]"),
        ("https://[::1/x", None),
        ("https://%ff/x", None),
        ("https://a b/", None),
        ("https://a:x/", None),
        ("https://a:65536/", None),
        ("https://", None),
        ("http://a/", None),
        ("https://é.example/", "xn--9ca.example"),
        ("https://EXAMPLE。com:8443", "example.com"),
    ],
)
def test_https_urls_are_read_as_browsers_do(text: str, host: str | None) -> None:
    url = parse_https(text)
    assert (None if url is None else url.host) == host


def test_dot_segments_are_removed() -> None:
    url = parse_https("https://a/b/./c/../d/.?q#f")
    assert url is not None
    assert (url.path, url.query, url.fragment, url.origin) == ("/b/d/", "q", "f", "https://a")


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("http://2130706433/", True),
        ("http://0x7f.1./", True),
        ("http://1.2.3.4.5/", False),
        ("http://256.1.1.1/", False),
        ("http://08.1/", False),
        ("http://a.1/", False),
        ("http://xn--a/", False),
        ("http://xn--a-ecp.example/", False),
        ("http://example.com:99999/", False),
        ("http:user@host/", True),
        ("file:///etc", True),
        ("file://host/x", True),
        ("file://c:/x", True),
        ("file://a:b/x", False),
        ("s3://localhost/x", True),
        ("s3://:80/x", False),
        ("s3://h:x/", False),
        ("s3:bucket", False),
        ("no scheme", False),
    ],
)
def test_urls_are_private_by_their_parsed_host(text: str, private: bool) -> None:
    assert is_private_url(text) is private


def test_event_keys_hold_no_white_space() -> None:
    assert refused(lambda: event_key_text(f"a :{'0' * 64}")) == "event-key"
