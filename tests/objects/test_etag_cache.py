"""The cache of conditional reads: recorded store calls, eviction, and its bounds."""

from collections.abc import Iterator
from typing import Any

import pytest

from moorage.durable_objects.objects.etag_cache import EtagCacheStore, max_body_bytes
from moorage.protocols.etag_cache import CLEAN_LOT, MAX_ENTRIES, RETENTION_MS
from tests.objects.sqlite_storage import Storage
from tests.objects.store_vectors import by_name

SEQUENCES = by_name("etag-cache-store")


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.close()


@pytest.mark.parametrize("name", SEQUENCES)
def test_recorded_calls(name: str, storage: Storage) -> None:
    store = EtagCacheStore(storage)
    for step in SEQUENCES[name]:
        result = getattr(store, step["op"])(*step["args"])
        assert result == step["result"], step["name"]


def key(number: int) -> dict[str, Any]:
    return {"credential_pool": "target_app", "route": f"/repos/acme/widgets/issues/{number}"}


def stored(number: int) -> dict[str, Any]:
    return {**key(number), "etag": '"e"', "body": "{}"}


def entries(storage: Storage) -> int:
    return int(storage.sql.exec("SELECT count(*) AS n FROM github_etag_response_cache_v1").one()["n"])


def test_the_least_recently_validated_entry_goes_first_and_ties_go_by_key(storage: Storage) -> None:
    store = EtagCacheStore(storage)
    for number in range(1, MAX_ENTRIES + 1):
        store.store200(stored(number), 1000)
    digest = store.lookup(key(1), 1000)
    assert digest is not None
    store.confirm304({**key(1), "etag": '"e"', "body_digest": digest["bodyDigest"]}, 2000)
    store.store200(stored(MAX_ENTRIES + 1), 3000)
    assert entries(storage) == MAX_ENTRIES
    assert store.lookup(key(1), 3000) is not None
    # "…/issues/10" is the smallest key after that of 1
    assert store.lookup(key(10), 3000) is None
    store.store200(stored(1), 4000)
    assert entries(storage) == MAX_ENTRIES


def test_expired_entries_leave_in_lots_at_most_once_a_minute(storage: Storage) -> None:
    store = EtagCacheStore(storage)
    for number in range(CLEAN_LOT + 10):
        store.store200(stored(number + 1), 1000)
    late = 1000 + RETENTION_MS
    store.lookup(key(1), late)
    assert entries(storage) == 10
    store.lookup(key(1), late + 1)
    assert entries(storage) == 10
    store.lookup(key(1), late + 60_000)
    assert entries(storage) == 0


def test_a_lookup_never_has_the_body(storage: Storage) -> None:
    store = EtagCacheStore(storage)
    store.store200({**stored(1), "body": '{"secret": 1}'}, 1000)
    assert "secret" not in str(store.lookup(key(1), 1000))


def test_the_body_cap_is_a_setting_in_bytes(storage: Storage) -> None:
    store = EtagCacheStore(storage, max_body_bytes=10)
    assert store.store200({**stored(1), "body": '{"a":"é"}'}, 1000)["stored"] is True
    assert store.store200({**stored(1), "body": '{"a":"éé"}'}, 1000)["reason"] == "body_size_bound"


@pytest.mark.parametrize(
    ("value", "cap"),
    [(None, 524_288), ("", 524_288), ("131072", 131_072), (7, 7), ("0", 524_288), ("many", 524_288), (-1, 524_288)],
)
def test_a_bad_cap_is_logged_and_the_default_is_used(value: Any, cap: int, caplog: pytest.LogCaptureFixture) -> None:
    assert max_body_bytes(value) == cap
    assert ("GITHUB_ETAG_CACHE_MAX_BODY_BYTES must be" in caplog.text) is (value in ("0", "many", -1))
