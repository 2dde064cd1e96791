"""Record rules: identity, tuples, commits, reads, page bounds."""

import base64
import hashlib
import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.protocols import records as rules
from moorage.protocols.javascript import to_text
from moorage.protocols.records.text import hashed_and_stored
from moorage.protocols.wire import WireError
from moorage.protocols.wire.records import (
    CanonicalRecordDigestMismatch,
    CanonicalRecordTooLarge,
    InvalidCanonicalCommitRecords,
    InvalidCanonicalRecordExport,
    InvalidCanonicalRecordListing,
    InvalidCanonicalRecordTuple,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
SLUGS = st.from_regex(rules.identity.SLUG, fullmatch=True)
NUMBERS = st.integers(1, 2**53 - 1)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def body(slug: str = "acme-widgets", number: int = 7, /, **contents: str | None) -> dict[str, object]:
    """A tuple request; a content None, or one that is not named, is a deletion."""
    operations: list[dict[str, object]] = []
    for section in rules.TUPLE_SECTIONS:
        operation: dict[str, object] = {"path": rules.tuple_path(slug, section, number), "expectedDigest": None}
        content = contents.get(section.replace("-", "_"))
        if content is not None:
            operation["contentBase64"] = encoded(content)
        operations.append(operation)
    return {"deliveryId": "d-1", "key": f"{slug}/{number}", "operations": operations}


def stored(write: rules.TupleWrite, revision: int) -> dict[str, rules.StoredSection]:
    return {operation.section: rules.StoredSection(operation.digest, revision) for operation in write.operations}


@given(SLUGS, st.sampled_from(rules.TUPLE_SECTIONS), NUMBERS)
def test_a_record_path_names_its_record(slug: str, section: str, number: int) -> None:
    record = rules.RecordId(slug, section, str(number))

    assert rules.RecordId.parse(record.path) == record
    assert record.path == rules.tuple_path(slug, section, number)


@given(st.text(max_size=80))
def test_any_text_is_a_record_path_or_refused_by_name(path: str) -> None:
    try:
        record = rules.RecordId.parse(path)
    except ValueError:
        return
    assert record.path == path


@pytest.mark.parametrize(
    "path",
    [
        "records/acme-widgets/items/07.md",
        "records/acme-widgets/items/7.json",
        "records/acme-widgets/items/9007199254740992.md",
        "records/../items/7.md",
        "records/acme-widgets/commits/7.md",
        "records/acme-widgets/items/7.md/",
        "acme-widgets/items/7.md",
    ],
)
def test_paths_outside_the_grammar_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"is needed|does not fit|1 to 200"):
        rules.RecordId.parse(path)


def test_a_record_is_of_a_known_section_and_repository() -> None:
    for slug, section, number in (
        ("a b", "items", "1"),
        ("a", "jobs", "1"),
        ("a", "items", "x"),
        ("a", "commits", "1"),
    ):
        with pytest.raises(ValueError, match=r"1 to 200|is needed"):
            rules.RecordId(slug, section, number)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (False, ""), (0, ""), (-0.0, ""), (float("nan"), ""), (True, "true"), (15, "15"), (1.5, "1.5"),
     (1e21, "1e+21"), (1.5e300, "1.5e+300"), (1e-7, "1e-7"), (1.25e-7, "1.25e-7"), (-1e-7, "-1e-7"), (2.0, "2"),
     (1e-6, "0.000001"), (1.5e-5, "0.000015"), (1e20, "100000000000000000000"), (1e16, "10000000000000000"),
     (12345678901234567890, "12345678901234567000"), (9007199254740993, "9007199254740992"), (-(10**30), "-1e+30"),
     (10**400, "Infinity"), (-(10**400), "-Infinity"), (123.456, "123.456"), (5e-324, "5e-324"),
     ([1, None, "a"], "1,,a"), ([float("nan"), -0.0], "NaN,0"), ([], ""), ({}, "[object Object]")],
)  # fmt: skip
def test_texts_are_read_as_the_reference_reads_them(value: object, text: str) -> None:
    assert to_text(value) == text


def test_a_repository_has_a_slug() -> None:
    assert rules.repository_slug("Acme/Widgets") == "acme-widgets"
    for wrong in ("acme", "acme/", "/widgets", "a/b/c", "a b/c"):
        with pytest.raises(ValueError, match="owner/name"):
            rules.repository_slug(wrong)


@pytest.mark.parametrize("key", ["acme-widgets/7", "  acme-widgets/7 ", "\ufeffacme-widgets/7\n", ["acme-widgets/7"]])
def test_a_key_is_trimmed_text(key: object) -> None:
    write = rules.parse_tuple({**body(items="report"), "key": key})

    assert (write.key, write.fingerprint) == ("acme-widgets/7", rules.parse_tuple(body(items="report")).fingerprint)


@pytest.mark.parametrize(
    "key",
    [None, "", 7, "acme-widgets", "acme-widgets/", "/7", "acme-widgets/07", "acme-widgets/0", "acme-widgets/-7",
     "acme-widgets/7.0", "acme-widgets/7/8", "acme widgets/7", ".acme/7", "-acme/7", "acme/widgets/7",
     "acme-widgets/ 7", "acme-widgets/8", "Acme-widgets/7", "acme-widgets/9007199254740992", f"{'a' * 201}/7", {}],
)  # fmt: skip
def test_other_keys_are_refused(key: object) -> None:
    with pytest.raises(InvalidCanonicalRecordTuple):
        rules.parse_tuple({**body(items="report"), "key": key})


@given(JSON)
def test_every_json_value_is_a_tuple_or_refused(value: object) -> None:
    with pytest.raises(InvalidCanonicalRecordTuple) as refusal:
        rules.parse_tuple(value)
    assert refusal.value.body() == {"error": "invalid_canonical_record_tuple"}


@given(SLUGS, NUMBERS, st.text(max_size=200), st.none() | st.text(max_size=50))
def test_a_report_and_a_plan_make_a_tuple(slug: str, number: int, report: str, plan: str | None) -> None:
    report = "x" + report
    write = rules.parse_tuple(body(slug, number, items=report, plans=plan))

    assert (write.slug, write.number) == (slug, number)
    contents = {operation.section: operation.content for operation in write.operations}
    assert contents["items"] == report.encode()
    assert contents["plans"] == (None if plan is None else plan.encode())
    for operation in write.operations:
        digest = None if operation.content is None else hashlib.sha256(operation.content).hexdigest()
        assert operation.digest == digest


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"deliveryId": ""}, "deliveryId"),
        ({"deliveryId": "a\nb"}, "deliveryId"),
        ({"deliveryId": "😀" * 257}, "deliveryId"),
        ({"key": "acme-widgets"}, "key"),
        ({"key": "acme-widgets/9007199254740993"}, "key"),
        ({"operations": {}}, "operations"),
        ({"operations": [None] * 4}, "operations"),
    ],
)
def test_the_refusal_of_a_tuple_names_the_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidCanonicalRecordTuple, match=field):
        rules.parse_tuple({**body(items="x"), **change})


@pytest.mark.parametrize(
    "contents",
    [
        {"items": "a", "closed": "b"},
        {"plans": "a"},
        {"decision_packets": "{}"},
        {"closed": "a", "plans": "b"},
        {"items": "a", "decision_packets": "{}"},
        {"items": "---\ndecision_packet_sha256: none\n---\n"},
    ],
)
def test_sections_that_exclude_each_other_are_refused(contents: dict[str, str]) -> None:
    with pytest.raises(InvalidCanonicalRecordTuple, match=r"operations|decision_packet"):
        rules.parse_tuple(body(**contents))


def test_a_packet_is_named_by_the_last_field_of_its_key() -> None:
    packet = "{}\n"
    digest = hashlib.sha256(packet.encode()).hexdigest()
    path = "records/acme-widgets/decision-packets/7.json"
    fields = ["decision_packet_sha256: none", f"decision_packet_sha256: {digest}", f"decision_packet_path:{path} "]
    report = "\r\n".join(["\ufeff---", *fields, "---"])

    write = rules.parse_tuple(body(items=report, decision_packets=packet))

    assert {operation.section for operation in write.operations if not operation.deletes} == {
        "items",
        "decision-packets",
    }


def test_the_simple_header_knows_no_field_with_a_line_terminator_inside() -> None:
    assert rules.simple_header("---\na: b\u2028c\nd: e\n---\n") == {"d": "e"}
    assert rules.simple_header("---\nA: b\n a: b\na:\n---more\n") == {"a": ""}
    assert rules.simple_header("---\na: b\n") == {}
    assert rules.simple_header("--- \na: b\n---\n") == {}
    # the delimiter that opens the header does not close it too
    assert rules.simple_header("---\n---\na: b\n---\n") == {"a": "b"}
    assert rules.simple_header("---\n---\n") == {}
    assert rules.simple_header("---\r\n---\r\na: b\r\n---") == {"a": "b"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"path": "records/acme-widgets/closed/7.md"}, "every section"),
        ({"path": 5}, "operations.path"),
        ({"expectedDigest": "A" * 64}, "expectedDigest"),
        ({"contentBase64": 5}, "padded base64"),
        ({"contentBase64": "eA"}, "padded base64"),
        ({"contentBase64": base64.b64encode(bytes(2 * 1024 * 1024 + 1)).decode()}, "padded base64"),
        ({"contentBase64": "//4="}, "UTF-8"),
    ],
)
def test_the_refusal_of_an_operation_names_the_field(change: dict[str, object], field: str) -> None:
    request = body(items="x")
    operations = request["operations"]
    assert isinstance(operations, list)
    operations[0] |= change

    with pytest.raises(InvalidCanonicalRecordTuple, match=field):
        rules.parse_tuple(request)


def test_a_fingerprint_covers_the_order_of_the_operations() -> None:
    request = body(items="x")
    operations = request["operations"]
    assert isinstance(operations, list)
    other = {**request, "operations": operations[::-1]}

    assert rules.parse_tuple(request).fingerprint != rules.parse_tuple(other).fingerprint
    payload = {
        "key": "acme-widgets/7",
        "operations": [
            {
                "path": operation["path"],
                "expectedDigest": None,
                "digest": hashlib.sha256(b"x").hexdigest() if "contentBase64" in operation else None,
            }
            for operation in operations
        ],
    }
    compact = json.dumps(payload, separators=(",", ":")).encode()
    assert rules.parse_tuple(request).fingerprint == hashlib.sha256(compact).hexdigest()


def test_a_first_write_is_revision_1_and_a_replay_answers_its_own() -> None:
    write = rules.parse_tuple(body(items="x"))

    assert rules.decide(write, None, {}) == rules.Write(1)
    assert rules.decide(write, (write.fingerprint, 1), stored(write, 5)) == rules.Replay(1)


def test_a_delivery_of_another_payload_shows_nothing() -> None:
    write = rules.parse_tuple(body(items="x"))
    decision = rules.decide(write, ("0" * 64, 1), stored(write, 1))

    assert isinstance(decision, rules.Conflict)
    assert not decision.show_current


def test_a_conflict_shows_the_tuple_only_when_it_is_whole() -> None:
    write = rules.parse_tuple(body(items="x"))
    whole = stored(write, 3)
    decision = rules.decide(write, None, whole)
    assert isinstance(decision, rules.Conflict)
    assert (decision.show_current, decision.revision) == (True, 3)

    torn = {**whole, "plans": rules.StoredSection(None, 4)}
    decision = rules.decide(write, None, torn)
    assert isinstance(decision, rules.Conflict)
    assert (decision.show_current, decision.revision) == (False, None)


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8))
def test_revisions_grow_by_one_along_any_chain_of_writes(texts: list[str]) -> None:
    rows: dict[str, rules.StoredSection] = {}
    for revision, text in enumerate(texts, 1):
        request = body(items="x" + text)
        operations = request["operations"]
        assert isinstance(operations, list)
        for operation, section in zip(operations, rules.TUPLE_SECTIONS, strict=True):
            operation["expectedDigest"] = rows[section].digest if section in rows else None
        write = rules.parse_tuple(request)
        assert rules.decide(write, None, rows) == rules.Write(revision)
        rows = stored(write, revision)


@given(JSON)
def test_every_json_value_is_a_lot_of_commits_or_refused(value: object) -> None:
    with pytest.raises(InvalidCanonicalCommitRecords):
        rules.parse_commits(value)


def commit(sha: str, content: str, digest: str | None = None) -> dict[str, object]:
    return {
        "sha": sha,
        "content": content,
        "digest": digest or hashlib.sha256(hashed_and_stored(content)[0]).hexdigest(),
    }


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["a", "b"])), min_size=1, max_size=30))
def test_a_lot_is_inserted_once_or_refused_whole(entries: list[tuple[int, str]]) -> None:
    lot = rules.parse_commits(
        {"repo_slug": "acme-widgets", "records": [commit(f"{number:040x}", text) for number, text in entries]}
    )
    decision = rules.decide_commits(lot, {})

    contradictory = any(len({text for key, text in entries if key == number}) > 1 for number, _ in entries)
    if contradictory:
        assert isinstance(decision, rules.CommitConflict)
    else:
        assert isinstance(decision, rules.CommitInsert)
        assert len(decision.records) == len({number for number, _ in entries})
        assert len(decision.records) + decision.unchanged == len(entries)


def test_a_deleted_commit_row_is_a_conflict() -> None:
    lot = rules.parse_commits({"repo_slug": "a", "records": [commit("0" * 40, "x")]})

    assert rules.decide_commits(lot, {"0" * 40: None}) == rules.CommitConflict("0" * 40)


def test_commit_faults_have_codes_of_their_own() -> None:
    sha = "0" * 40
    cases: list[tuple[dict[str, object], type[WireError]]] = [
        (commit(sha, "x", "1" * 64), CanonicalRecordDigestMismatch),
        (commit(sha, "x" * (2 * 1024 * 1024 + 1), "1" * 64), CanonicalRecordTooLarge),
        (commit(sha, "x", "1" * 63), InvalidCanonicalCommitRecords),
        (commit(sha, "x", f" {commit(sha, 'x')['digest']}"), InvalidCanonicalCommitRecords),
        (commit("A" * 40, "x"), InvalidCanonicalCommitRecords),
        ({"sha": sha, "digest": "1" * 64}, InvalidCanonicalCommitRecords),
    ]
    for record, refusal in cases:
        with pytest.raises(refusal):
            rules.parse_commits({"repo_slug": "a", "records": [record]})


@pytest.mark.parametrize(
    "request_body",
    [
        {"repo_slug": "a"},
        {"repo_slug": "a", "records": []},
        {"repo_slug": "a", "records": [commit("0" * 40, "x")] * 101},
        {"repo_slug": "a", "records": [None]},
        {"repo_slug": "a b", "records": [commit("0" * 40, "x")]},
    ],
)
def test_lots_have_1_to_100_records(request_body: dict[str, object]) -> None:
    with pytest.raises(InvalidCanonicalCommitRecords, match=r"record|repo_slug"):
        rules.parse_commits(request_body)


def test_a_list_is_of_a_tuple_section() -> None:
    for change in ({"section": "commits"}, {"repoSlug": "a/b"}, {"limit": 501}, {"cursor": -1}):
        with pytest.raises(InvalidCanonicalRecordListing):
            rules.parse_listing({"repoSlug": "a", "section": "items", **change})
    assert rules.list_cursor(2, [3, 9]) == 9
    assert rules.list_cursor(3, [3, 9]) is None
    assert rules.reconcile_prefix("a", 7) == "record-reconcile:a:7:"
    assert {operation.deletes for operation in rules.parse_tuple(body()).operations} == {True}


def test_a_lone_surrogate_is_hashed_as_one_mark_and_kept_as_three() -> None:
    assert hashed_and_stored("a\ud800b") == ("a\ufffdb".encode(), "a\ufffd\ufffd\ufffdb")
    assert hashed_and_stored("ab") == (b"ab", "ab")


@given(JSON)
def test_reads_of_any_json_are_pages_or_refused(value: object) -> None:
    with pytest.raises(InvalidCanonicalRecordListing):
        rules.parse_listing(value)
    with pytest.raises(InvalidCanonicalRecordExport):
        rules.parse_export(value)


@given(
    st.fixed_dictionaries(
        {"repoSlug": st.just("a"), "section": st.just("items")},
        optional={"cursor": JSON, "limit": JSON},
    )
)
def test_a_listing_stays_in_its_bounds(request: dict[str, object]) -> None:
    try:
        listing = rules.parse_listing(request)
    except InvalidCanonicalRecordListing:
        return
    assert listing.cursor >= 0
    assert 1 <= listing.limit <= rules.LIST_MAXIMUM


@given(
    st.fixed_dictionaries(
        {"repoSlug": st.just("a")}, optional={"cursor": JSON, "limit": JSON, "sinceRevision": JSON, "sections": JSON}
    )
)
def test_an_export_stays_in_its_bounds(request: dict[str, object]) -> None:
    try:
        export = rules.parse_export(request)
    except InvalidCanonicalRecordExport:
        return
    assert 1 <= export.limit <= rules.EXPORT_MAXIMUM
    assert export.after == max(export.cursor, export.since_revision) >= 0
    assert set(export.sections) <= set(rules.SECTIONS)


@given(st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 6)), max_size=30))
def test_a_page_holds_at_least_one_row_and_ends_before_its_bounds(rows: list[tuple[int, int]]) -> None:
    bound = rules.PageBound()
    sizes = [(text, text * factor + 100) for text, factor in rows]
    taken = 0
    for text, encoded_size in sizes:
        if not bound.admits(text, lambda size=encoded_size: size):  # type: ignore[misc]
            break
        taken += 1

    def fits(count: int) -> bool:
        return (
            sum(text for text, _ in sizes[:count]) <= 2 * 1024**2
            and sum(size for _, size in sizes[:count]) <= 4 * 1024**2
        )

    expected = 0
    while expected < len(sizes) and (expected == 0 or fits(expected + 1)):
        expected += 1
    assert taken == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_text_from_the_wire_gets_its_bytes_back(text: str) -> None:
    data = text.encode()

    assert rules.restore_text(rules.wire_text(text), rules.digest_of(data)) == data
    assert rules.restore_text(text + "!", rules.digest_of(data)) is None


BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@given(st.text(alphabet="YWJj=+/-_ \n", max_size=12) | st.text(alphabet="J=", max_size=9))
@example("JJJJ=")
@example("JJJJ====")
def test_base64_is_strict(text: str) -> None:
    assert (rules.decode_base64(text) is not None) == (BASE64.fullmatch(text) is not None)
