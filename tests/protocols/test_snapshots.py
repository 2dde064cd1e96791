"""Snapshot rules: archives, descriptions, identities, ranges, upload requests."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols import snapshot_uploads as uploads
from moorage.protocols import snapshots as rules
from moorage.protocols import ustar
from moorage.protocols.wire import WireError
from moorage.protocols.wire.snapshot_uploads import (
    InvalidSnapshotDigest,
    InvalidSnapshotOperationId,
    InvalidSnapshotPartNumber,
    InvalidSnapshotParts,
    InvalidSnapshotUploadId,
    SnapshotPartMismatch,
    SnapshotPartMissing,
    SnapshotTooLarge,
    UploadOperationMismatch,
    UploadRequestExpired,
)
from moorage.protocols.wire.snapshots import (
    InvalidSnapshotDescriptor,
    InvalidSnapshotIdentities,
    InvalidSnapshotRange,
    InvalidSnapshotRepository,
    SnapshotIdentityDigestMismatch,
)

NOW = 1_796_048_000_000
UUID = "01234567-89ab-cdef-0123-456789abcdef"
START: dict[str, object] = {
    "repoSlug": "acme-widgets",
    "revisionWatermark": 3,
    "bytes": 25,
    "uncompressedBytes": 100,
    "fileCount": 1,
    "sha256": "a" * 64,
}
SCALARS = st.none() | st.booleans() | st.integers(-10, 2**60) | st.floats() | st.text(max_size=8)


@given(st.lists(st.binary(max_size=1500), max_size=6))
def test_archives_are_read_by_any_tar(contents: list[bytes]) -> None:
    data = b"".join(ustar.entry(f"items/{number}.md", content) for number, content in enumerate(contents, 1))
    with tarfile.open(fileobj=io.BytesIO(data + ustar.END), mode="r:") as archive:
        members = archive.getmembers()
        found = [opened.read() for member in members if (opened := archive.extractfile(member)) is not None]

    assert found == contents
    assert [member.name for member in members] == [f"items/{number}.md" for number in range(1, len(contents) + 1)]
    for member in members:
        assert (member.mode, member.uid, member.gid, member.mtime) == (0o644, 0, 0, 0)
        assert (member.uname, member.gname, member.type) == ("clawsweeper", "clawsweeper", tarfile.REGTYPE)
    assert len(data) % ustar.BLOCK == 0


def test_names_and_sizes_beyond_ustar_are_refused() -> None:
    for name, size in (("", 1), ("x" * 101, 1), ("x", 8**11), ("x", -1)):
        with pytest.raises(ValueError, match="does not fit"):
            ustar.header(name, size)


@given(st.dictionaries(st.sampled_from([*START, "identityDigest", "operationId"]), SCALARS))
def test_any_start_is_an_upload_or_refused(change: dict[str, object]) -> None:
    try:
        start = uploads.parse_start({**START, **change})
    except WireError:
        return
    sizes = [start.descriptor.part_size(number) for number in range(1, start.descriptor.part_count + 1)]
    assert sum(sizes) == start.descriptor.bytes
    assert all(0 < size <= rules.PART_BYTES for size in sizes)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"bytes": 2**30 + 1}, SnapshotTooLarge),
        ({"bytes": 0}, InvalidSnapshotDescriptor),
        ({"bytes": "25"}, InvalidSnapshotDescriptor),
        ({"repoSlug": "assets"}, InvalidSnapshotDescriptor),
        ({"fileCount": 250_001}, InvalidSnapshotDescriptor),
        ({"sha256": "A" * 64}, InvalidSnapshotDigest),
        ({"identityDigest": "a"}, InvalidSnapshotDescriptor),
        ({"operationId": "a b"}, InvalidSnapshotOperationId),
        ({"bytes": [25]}, InvalidSnapshotDescriptor),
        ({"fileCount": []}, InvalidSnapshotDescriptor),
        # two faults: the size first, then the digest of the archive, the operation, the description
        ({"bytes": 2**30 + 0.5, "repoSlug": "a/b", "sha256": None}, SnapshotTooLarge),
        ({"repoSlug": "a/b", "sha256": None, "operationId": "a b"}, InvalidSnapshotDigest),
        ({"repoSlug": "a/b", "operationId": ""}, InvalidSnapshotOperationId),
    ],
)
def test_faults_of_a_start_have_their_codes(change: dict[str, object], refusal: type[WireError]) -> None:
    with pytest.raises(refusal):
        uploads.parse_start({**START, **change})


@given(st.integers(0, 250_000))
def test_staged_lists_hold_every_identity(files: int) -> None:
    descriptor = rules.Descriptor("a", 0, 1, 0, files, None)

    assert sum(descriptor.manifest_size(number) for number in range(1, descriptor.manifest_count + 1)) == files


def test_a_fingerprint_leaves_out_what_may_differ() -> None:
    first = uploads.parse_start({**START, "operationId": "o-1", "issuedAt": "2026-11-30T10:00:00Z"})
    again = uploads.parse_start({**START, "operationId": "o-1"})
    other = uploads.parse_start({**START, "operationId": "o-1", "fileCount": 2})

    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_identities_are_ascending_by_text() -> None:
    good = [["closed", "4"], ["items", "1"], ["items", "10"], ["items", "9"]]

    assert rules.parse_identities(good) == [(section, number) for section, number in good]
    refused: list[object] = [
        good[::-1],
        [*good, good[-1]],
        [["items", "01"]],
        [["jobs", "1"]],
        [["items", 1]],
        {},
        [["items"]],
    ]
    for wrong in refused:
        with pytest.raises(InvalidSnapshotIdentities):
            rules.parse_identities(wrong)


def test_the_identity_digest_is_the_published_one() -> None:
    identities = [("closed", "4"), ("items", "1"), ("items", "2")]

    assert rules.identity_digest(identities) == "72c45f14b7b979db72a9316f4375fbb866d46484394d56f651ec7211c99bff36"


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("revisionWatermark", "offset", "length"), SCALARS)))
def test_any_range_is_in_bounds_or_refused(body: dict[str, object]) -> None:
    try:
        asked = rules.parse_range(body)
        length = asked.cut(100)
    except InvalidSnapshotRange:
        return
    assert 0 < length <= min(rules.MAX_CHUNK_BYTES, 100 - asked.offset)


@pytest.mark.parametrize(
    "change",
    [
        {"createdAt": NOW + 1},
        {"createdAt": NOW - 1},
        {"revisionWatermark": 4},
        {"objectKey": f"acme-widgets/2/{NOW}-{UUID}.tar.gz"},
        {"objectKey": f"acme-gadgets/3/{NOW}-{UUID}.tar.gz"},
        {"objectKey": f"acme-widgets/3/{NOW}-{UUID}.tar"},
        {"objectKey": f"../acme-widgets/3/{NOW}-{UUID}.tar.gz"},
        {"objectKey": 5},
        {"bytes": 2**31},
    ],
)
def test_a_registration_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    good = {**START, "createdAt": NOW, "objectKey": rules.object_key("acme-widgets", 3, NOW, UUID)}
    assert rules.parse_registration(good, NOW, 3).object_key == good["objectKey"]

    with pytest.raises(InvalidSnapshotDescriptor):
        rules.parse_registration({**good, **change}, NOW, 3)


@pytest.mark.parametrize(
    ("issued", "good"),
    [
        ("2026-11-30T14:13:20.000Z", True),
        ("2026-11-30T14:13:20Z", True),
        ("2026-11-30T13:13:20.000Z", False),
        ("2026-11-30T14:18:20.000Z", True),
        ("2026-11-30T14:18:20.001Z", False),
        ("2026-11-30T14:13:20+00:00", False),
        ("2026-13-30T14:13:20Z", False),
        (NOW, False),
    ],
)
def test_a_request_is_fresh_for_an_hour(issued: object, good: bool) -> None:
    body = {"operation": "part", "issuedAt": issued}
    if good:
        uploads.check_request(body, "part", NOW)
    else:
        with pytest.raises(UploadRequestExpired):
            uploads.check_request(body, "part", NOW)


@pytest.mark.parametrize("value", [None, 5, ["u"], "x" * 201])
def test_an_upload_id_is_a_text(value: object) -> None:
    with pytest.raises(InvalidSnapshotUploadId):
        uploads.parse_upload_id({"uploadId": value})
    for known in ("u", "", "x" * 200):
        assert uploads.parse_upload_id({"uploadId": known}) == known


@pytest.mark.parametrize("value", [None, 0, 3, "1", 1.5, True, [1]])
def test_a_part_number_is_in_range(value: object) -> None:
    with pytest.raises(InvalidSnapshotPartNumber):
        uploads.parse_part_number({"partNumber": value}, 2)
    assert uploads.parse_part_number({"partNumber": 2.0}, 2) == 2


def test_parts_are_listed_whole_and_in_order() -> None:
    parts = [{"partNumber": 1, "etag": "a"}, {"partNumber": 2, "etag": "b"}]
    receipts = {1: "a", 2: "b"}
    assert uploads.check_parts(parts, 2, receipts) == ["a", "b"]
    refused: list[object] = [
        parts[:1],
        parts[::-1],
        {},
        [None, None],
        [{"partNumber": 1}, parts[1]],
        [parts[0], {"partNumber": "2", "etag": "b"}],
        [parts[0], {"partNumber": [2], "etag": "b"}],
    ]
    for wrong in refused:
        with pytest.raises(InvalidSnapshotParts):
            uploads.check_parts(wrong, 2, receipts)
    with pytest.raises(SnapshotPartMissing):
        uploads.check_parts(parts, 2, {1: "a"})
    with pytest.raises(SnapshotPartMismatch):
        uploads.check_parts(parts, 2, {1: "a", 2: "c"})


def test_the_first_part_with_a_fault_decides() -> None:
    parts: list[object] = [{"partNumber": 1, "etag": "a"}, None]
    with pytest.raises(SnapshotPartMissing):
        uploads.check_parts(parts, 2, {2: "b"})
    with pytest.raises(SnapshotPartMismatch):
        uploads.check_parts(parts, 2, {1: "b"})
    with pytest.raises(InvalidSnapshotParts):
        uploads.check_parts(parts, 2, {1: "a"})


def test_the_repository_of_a_request() -> None:
    assert rules.parse_repository({"repoSlug": " acme-widgets "}) == "acme-widgets"
    refused: list[dict[str, object]] = [{}, {"repoSlug": "a/b"}, {"repoSlug": None}]
    for wrong in refused:
        with pytest.raises(InvalidSnapshotRepository):
            rules.parse_repository(wrong)


def test_the_digest_of_identities_is_compared_when_it_was_declared() -> None:
    rules.check_identity_digest([("items", "1")], None)
    with pytest.raises(SnapshotIdentityDigestMismatch):
        rules.check_identity_digest([("items", "1")], "0" * 64)


def test_an_operation_is_the_route() -> None:
    uploads.check_request({}, "start", NOW)
    with pytest.raises(UploadOperationMismatch):
        uploads.check_request({"operation": "part"}, "start", NOW)


def test_slugs_of_blob_prefixes_have_no_snapshots() -> None:
    with pytest.raises(InvalidSnapshotRepository):
        rules.check_not_reserved("assets")
    rules.check_not_reserved("acme-assets")


def test_keys_and_envelope_are_those_of_the_wire() -> None:
    key = rules.object_key("acme-widgets", 3, NOW, UUID)
    assert key == f"acme-widgets/3/{NOW}-{UUID}.tar.gz"
    assert rules.manifest_key(key, 2) == f"{key}.manifest/2"
    envelope = rules.Snapshot("acme-widgets", 3, key, 25, 100, 1, NOW).envelope()
    assert envelope["snapshot"] == {
        "repoSlug": "acme-widgets",
        "revisionWatermark": 3,
        "objectKey": key,
        "bytes": 25,
        "uncompressedBytes": 100,
        "fileCount": 1,
        "createdAt": "2026-11-30T14:13:20.000Z",
        "access": {"mode": "worker_range_proxy", "maxChunkBytes": 33_554_432},
    }
