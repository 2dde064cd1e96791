"""Strict loading of manifests, identities, analyze records, remote documents."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.sessions import (
    NARRATIO,
    CollectionRefused,
    IdentityRefused,
    Projection,
    ReadRefused,
    ResultRefused,
    SessionError,
    SessionManifest,
    Status,
    UnsupportedState,
    commits,
    encode,
    lifecycle,
    parse,
)
from moorage.protocols.sessions import artifacts as collection
from moorage.protocols.sessions import cleanup as cleaning
from moorage.protocols.sessions.artifacts import Configuration, Configured
from moorage.protocols.sessions.commits import CommittedArtifact, Place, Source
from moorage.protocols.sessions.decisions import Evidence
from moorage.protocols.sessions.documents import Artifact, CommitIdentity
from moorage.protocols.sessions.fingerprints import compare, fingerprint
from moorage.protocols.sessions.identities import check_segment, path_fault, segment_fault
from moorage.protocols.sessions.strict_json import canonical

NOW = "2026-11-30T12:00:00Z"
SHA = "a" * 64
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def plain() -> dict[str, Any]:
    projection = Projection("north", "s01", "r1", s3_session_prefix="a/b")
    value: dict[str, Any] = json.loads(encode(lifecycle.started(None, projection, NARRATIO, NOW)))
    return value


def load(value: Any) -> SessionManifest:
    return parse(json.dumps(value).encode())


def test_a_new_manifest_reads_back() -> None:
    manifest = load(plain())
    assert set(manifest.stages) == set(NARRATIO.order)
    assert all(record.status is Status.PENDING for record in manifest.stages.values())
    assert json.loads(encode(manifest)) == plain()


def put(path: str, entry: Any) -> dict[str, Any]:
    """A new manifest with one member changed, or removed (`...`)."""
    value = plain()
    *parents, last = path.split("/")
    place = value
    for name in parents:
        place = place.setdefault(name, {})
    if entry is ...:
        del place[last]
    else:
        place[last] = entry
    return value


OUT = {"source_id": "a", "path": "a.md", "contract": {}, "sha256": SHA}
CURRENT = {
    "key": "a", "disposition": "current", "depends_on": [], "run_id": "r", "updated_at": NOW,
    "fingerprint": {"version": 1, "sha256": SHA}, "output": OUT, "output_size": 1,
}  # fmt: skip


def record(**changes: Any) -> dict[str, Any]:
    return {name: entry for name, entry in {**CURRENT, **changes}.items() if entry is not ...}


def obligation(**target: Any) -> dict[str, Any]:
    """A clean-up obligation with one target."""
    commit = {"key": "p/runs/r/commit.json", "sha256": SHA, "size": 1, "generation": "g"}
    return {
        "run_id": "r",
        "commit": commit,
        "targets": [{"root": "spool", "path": "x", "completed": False, **target}],
    }


ANALYZE = "stages/analyze/analyze_artifacts/a"
WITHOUT = {"output": ..., "output_size": ...}


@pytest.mark.parametrize(
    ("path", "entry", "where"),
    [
        ("schema_version", ..., "schema_version"),
        ("schema_version", "narratio.session-manifest.v2", "schema_version"),
        ("stages", ..., "stages"),
        ("stages", None, "stages"),
        ("stages", [], "stages"),
        ("stages/merge", None, "stages.merge"),
        ("stages/merge/name", "polish", "stages.merge.name"),
        ("stages/merge/name", ..., "stages.merge.name"),
        ("stages/upload", {"name": "upload", "status": "pending"}, "stages.upload"),
        ("stages/merge/status", "done", "a member"),
        ("stages/merge/analyze_state_version", 1, "stages.merge.analyze_state_version"),
        ("stages/merge/analyze_artifacts", {}, "stages.merge.analyze_artifacts"),
        ("stages/analyze/analyze_state_version", ..., "stages.analyze.analyze_state_version"),
        ("stages/analyze/analyze_state_version", 2, "stages.analyze.analyze_state_version"),
        ("stages/analyze/analyze_state_version", True, "stages.analyze.analyze_state_version"),
        ("stages/analyze/analyze_artifacts", ..., "stages.analyze.analyze_artifacts"),
        ("stages/analyze/analyze_artifacts", None, "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(key="b"), "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(output=...), "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(output_size=...), "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(fingerprint=...), "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(output_size=0), "a member"),
        (ANALYZE, record(diagnostic="x"), "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(disposition="stale"), "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(disposition="failed", **WITHOUT), "stages.analyze.analyze_artifacts"),
        (ANALYZE, record(disposition="failed", diagnostic="x" * 2001, **WITHOUT), "a member"),
        (ANALYZE, record(diagnostic_paths=["a"] * 17), "a member"),
        (ANALYZE, record(output={**OUT, "path": "../a"}), "stages.analyze.analyze_artifacts"),
        ("unknown", 1, "a member"),
        ("stages/merge/unknown", 1, "a member"),
        ("inputs", [{"id": "players", "source": "derived_from_party", "sha256": SHA}], "inputs.players.source"),
        ("inputs", [{"id": "party", "source": "x", "sha256": "A" * 64}], "a member"),
        ("inputs", [{"id": "party", "source": "x", "sha256": SHA + "\n"}], "a member"),
        ("updated_at", "yesterday", "a member"),
        ("s3_session_prefix", "/a", "s3_session_prefix"),
        ("post_publish_cleanup", obligation(completed=True), "post_publish_cleanup.targets[0]"),
        ("post_publish_cleanup", obligation(completed=True, evidence="deleted"), "post_publish_cleanup.targets[0]"),
        ("post_publish_cleanup", obligation(completed=True, completed_at=NOW), "post_publish_cleanup.targets[0]"),
        ("post_publish_cleanup", obligation(completed_at=NOW), "post_publish_cleanup.targets[0]"),
        ("post_publish_cleanup", obligation(evidence="absent"), "post_publish_cleanup.targets[0]"),
        ("post_publish_cleanup", obligation(evidence="absent", completed_at=NOW), "post_publish_cleanup.targets[0]"),
        ("post_publish_cleanup", obligation(path="../x"), "post_publish_cleanup.targets[0].path"),
        ("inputs", [{"id": "party", "source": "x", "sha256": SHA, "size": "\ud800"}], "the file"),
        ("stages/merge/reason", "\udfff", "the file"),
    ],
)  # fmt: skip
def test_unsupported_state_is_refused_with_guidance(path: str, entry: Any, where: str) -> None:
    with pytest.raises(UnsupportedState, match=r"Move the file aside and regenerate it.*restore") as refused:
        load(put(path, entry))
    assert refused.value.field == where


@pytest.mark.parametrize("field", ["campaign", "session_id", "run_id"])
@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a b", "-a", "é", "a.", "CON", "com1.txt", "nul", "x" * 129, "a\n", "a\x00"]
)
def test_unsafe_identities_are_refused_with_the_migration_hint(field: str, name: str) -> None:
    with pytest.raises(IdentityRefused, match="To migrate"):
        load(put(field, name))
    with pytest.raises(IdentityRefused, match="never rewritten"):
        check_segment(field, name)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True))
def test_a_safe_segment_is_kept_as_it_is(name: str) -> None:
    if segment_fault(name) is None:
        assert check_segment("run_id", name) == name
        assert load(put("run_id", name)).run_id == name
    else:
        assert name.endswith(".") or name.split(".")[0].lower()[:3] in ("con", "prn", "aux", "nul", "com", "lpt")


@given(st.text(max_size=20))
def test_a_path_without_fault_stays_below_its_root(text: str) -> None:
    if path_fault(text) is None:
        parts = text.split("/")
        assert not text.startswith("/")
        assert all(part not in ("", ".", "..") for part in parts)


@pytest.mark.parametrize("lists", [None, ...])
def test_absent_lists_become_empty_ones(lists: Any) -> None:
    value = put("inputs", lists)
    value["stages"]["merge"]["outputs"] = None
    manifest = load(value)
    assert manifest.inputs == () == manifest.stages["merge"].outputs


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"a": 1, "a": 2}',
        b"{} {}",
        b'{"a": NaN}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
    ],
)
def test_what_is_no_strict_object_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedState):
        parse(data)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises((UnsupportedState, IdentityRefused)):
        parse(data)


@given(st.sampled_from(sorted(plain())), JSON)
def test_any_member_of_any_type_is_read_or_refused(name: str, entry: Any) -> None:
    try:
        manifest = load({**plain(), name: entry})
    except SessionError:
        return
    assert parse(encode(manifest)) == manifest


def test_malformed_evidence_is_a_mismatch_and_no_reason_to_refuse_the_file() -> None:
    present = fingerprint(1, {"x": 1})
    for stored in (1, {}, {"version": True, "sha256": present.sha256}, {"version": 1, "sha256": "A" * 64}):
        manifest = load(put("stages/merge/semantic_fingerprint", stored))
        assert compare(manifest.stages["merge"].semantic_fingerprint, present) is Evidence.MISMATCH
    known = {"version": 1, "sha256": present.sha256}
    assert compare(
        load(put("stages/merge/semantic_fingerprint", known)).stages["merge"].semantic_fingerprint, present
    ) is (Evidence.MATCH)
    assert compare(known, None) is Evidence.NONE


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), st.integers(), max_size=5))
def test_a_fingerprint_does_not_depend_on_the_order_of_members(value: dict[str, int]) -> None:
    turned = dict(reversed(list(value.items())))
    assert fingerprint(1, value) == fingerprint(1, turned)
    assert canonical(value) == canonical(turned)
    with pytest.raises(ValueError, match="at least 1"):
        fingerprint(0, value)


# -- the artifact stage's collection ---------------------------------------------------------------------------------


def configured(key: str, *depends_on: str, version: int = 1) -> Configured:
    return Configured(key, depends_on, key, f"{key}.md", {}, fingerprint(version, key))


CHAIN = Configuration([configured("a"), configured("b", "a"), configured("c", "b"), configured("z")])
ALL = frozenset("abcz")


def made(records: Any, key: str, sha: str = SHA, former: Any = None, configuration: Configuration = CHAIN) -> Any:
    return collection.completed(configuration, records, key, sha256=sha, size=1, run_id="r", now=NOW, former=former)


def everything() -> Any:
    records: Any = collection.reconciled(CHAIN, {}, ALL, ALL, "r", NOW)
    assert {entry.disposition for entry in records.values()} == {"missing"}
    for key in CHAIN.order:
        records = made(records, key)
    return records


def dispositions(records: Any) -> dict[str, str]:
    return {key: entry.disposition for key, entry in records.items()}


def test_same_bytes_and_contract_keep_dependents_current() -> None:
    records = everything()
    again = made(records, "a", former=collection.identity(records["a"]))
    assert dispositions(again) == dict.fromkeys("abcz", "current")


def test_a_changed_identity_takes_authority_from_every_transitive_dependent() -> None:
    records = everything()
    changed = made(records, "a", "b" * 64, former=collection.identity(records["a"]))
    assert dispositions(changed) == {"a": "current", "b": "stale", "c": "stale", "z": "current"}
    assert [output.id for output in collection.outputs(CHAIN, changed)] == ["a", "z"]
    collection.check_collection(changed)


def test_an_error_leaves_a_retry_collection() -> None:
    found = collection.failed(CHAIN, everything(), "b", "it broke", "r", NOW)
    assert dispositions(found) == {"a": "current", "b": "failed", "c": "stale", "z": "current"}
    assert found["b"].diagnostic == "it broke"


def test_reconciliation_keeps_what_is_usable_and_intact() -> None:
    records = everything()
    newer = Configuration([configured("a"), configured("b", "a", version=2), configured("c", "b"), configured("n")])
    found = collection.reconciled(newer, records, {"a"}, {"a", "b"}, "r2", NOW)
    # b's semantics changed, c's file is gone, z is configured no more, n was never evaluated
    assert dispositions(found) == {"a": "current", "b": "stale", "c": "missing", "n": "unselected"}
    assert found["a"] is records["a"]


def test_configurations_that_cannot_be() -> None:
    for rows in (
        [configured("a"), configured("a")],
        [configured("a", "b")],
        [configured("a", "b"), configured("b", "a")],
        [configured("a"), Configured("b", (), "b", "a.md", {}, fingerprint(1, 1))],
    ):
        with pytest.raises(CollectionRefused):
            Configuration(rows)
    with pytest.raises(CollectionRefused, match="no artifact"):
        CHAIN.closure(["q"])
    assert CHAIN.closure(["c"]) == ("a", "b", "c")
    assert collection.normalized_key("  The  Recap ") == "the-recap"


@given(st.lists(st.tuples(st.sampled_from("abcz"), st.sampled_from(["make", "change", "fail"])), max_size=12))
def test_no_sequence_breaks_the_table_of_dispositions(steps: list[tuple[str, str]]) -> None:
    records: Any = collection.reconciled(CHAIN, {}, ALL, ALL, "r", NOW)
    for number, (key, what) in enumerate(steps):
        if what == "fail":
            records = collection.failed(CHAIN, records, key, "x", "r", NOW)
        else:
            sha = SHA if what == "make" else f"{number:064x}"
            records = made(records, key, sha, collection.identity(records[key]))
        collection.check_collection(records)
        for entry in records.values():
            assert (entry.disposition == "current") == (collection.identity(entry) is not None)


# -- cleaning up -----------------------------------------------------------------------------------------------------


def test_an_incomplete_obligation_keeps_its_authority() -> None:
    manifest = load(plain())
    commit = CommitIdentity(key="p/c.json", sha256=SHA, size=1, generation="g")
    owed = cleaning.record(manifest, "r1", commit, [("spool", "a"), ("spool", "b")])
    assert cleaning.incomplete(owed)
    half = cleaning.complete(owed, 0, "deleted", NOW)
    with pytest.raises(SessionError, match="not complete"):
        cleaning.record(half, "r2", commit, [("spool", "x")])
    with pytest.raises(SessionError, match="no such"):
        cleaning.complete(half, 0, "deleted", NOW)
    done = cleaning.complete(half, 1, "absent", NOW)
    assert not cleaning.incomplete(done)
    assert parse(encode(done)) == done
    assert cleaning.record(done, "r2", commit, []) == manifest
    with pytest.raises(SessionError, match="target"):
        cleaning.record(manifest, "r1", commit, [("spool", "../a")])


# -- remote documents ------------------------------------------------------------------------------------------------

PLACE = Place(campaign="north", session_id="s01", prefix="p/north/s01")


def committed(path: str = "a.txt", **changes: Any) -> CommittedArtifact:
    values: dict[str, Any] = {
        "source": Source(type="stage_output", id="merge/a"), "key": PLACE.artifact_key("r1", path),
        "sha256": SHA, "size": 1, "generation": "g1", **changes,
    }  # fmt: skip
    return CommittedArtifact(**values)


COMMIT = commits.encode(commits.build(PLACE, "r1", [committed("b.txt"), committed("a.txt")]))
POINTER = commits.point(PLACE, "r1", COMMIT, "g9")


def test_documents_read_back() -> None:
    assert commits.read_pointer(commits.encode(POINTER), PLACE) == POINTER
    commit = commits.read_commit(COMMIT, "g9", POINTER, PLACE)
    assert [entry.key[-5:] for entry in commit.artifacts] == ["a.txt", "b.txt"]
    assert commits.encode(commit) == COMMIT
    assert COMMIT.endswith(b"}\n")
    assert b", " not in COMMIT


def changed_pointer(**changes: Any) -> bytes:
    return json.dumps({**json.loads(commits.encode(POINTER)), **changes}).encode()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "malformed"),
        (b"[]", "malformed"),
        (commits.encode(POINTER) + b"{}", "malformed"),
        (changed_pointer(extra=1), "malformed"),
        (changed_pointer(commit={**json.loads(commits.encode(POINTER))["commit"], "size": "\ud800"}), "malformed"),
        (changed_pointer(campaign="\udc00"), "malformed"),
        (changed_pointer(run_id="a/b"), "malformed"),
        (changed_pointer(run_id=1), "malformed"),
        (changed_pointer(schema_version=1), "malformed"),
        (changed_pointer(schema_version="narratio.commit-pointer.v2"), "unsupported-version"),
        (changed_pointer(campaign="south"), "identity-mismatch"),
        (changed_pointer(session_id="S01"), "identity-mismatch"),
        (changed_pointer(run_id="r2"), "identity-mismatch"),
        (changed_pointer(commit={**json.loads(commits.encode(POINTER))["commit"], "size": 0}), "malformed"),
        (changed_pointer(commit={**json.loads(commits.encode(POINTER))["commit"], "size": 1.0}), "malformed"),
        (commits.encode(POINTER).replace(b'{"campaign"', b'{"campaign":"north","campaign"'), "malformed"),
    ],
)
def test_a_pointer_that_is_not_exactly_one_is_refused(data: bytes, kind: str) -> None:
    with pytest.raises(ReadRefused) as refused:
        commits.read_pointer(data, PLACE)
    assert refused.value.kind == kind


def rebound(change: Any) -> tuple[bytes, Any]:
    """A changed commit that the pointer does bind, so that only its content is wrong."""
    value = json.loads(COMMIT)
    change(value)
    data = json.dumps(value).encode()
    return data, commits.point(PLACE, "r1", data, "g9")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda value: value.update(extra=1), "malformed"),
        (lambda value: value["artifacts"][0].update(extra=1), "malformed"),
        (lambda value: value["artifacts"][0]["source"].update(type="else"), "malformed"),
        (lambda value: value["artifacts"].reverse(), "malformed"),
        (lambda value: value["artifacts"].append(value["artifacts"][1]), "malformed"),
        (lambda value: value.update(schema_version="v2"), "unsupported-version"),
        (lambda value: value.update(run_id="r2"), "identity-mismatch"),
        (lambda value: value.update(campaign="south"), "identity-mismatch"),
        (lambda value: value["artifacts"][0].update(key="p/north/s01/runs/r2/artifacts/a.txt"), "identity-mismatch"),
        (lambda value: value["artifacts"][0].update(key="p/north/s01/runs/r1/artifacts/../a"), "identity-mismatch"),
        (lambda value: value["artifacts"][0].update(key="p/north/s01/runs/r1/artifacts/b.txt/c"), "malformed"),
    ],
)
def test_a_commit_that_is_bound_and_wrong_is_refused(change: Any, kind: str) -> None:
    data, pointer = rebound(change)
    with pytest.raises(ReadRefused) as refused:
        commits.read_commit(data, "g9", pointer, PLACE)
    assert refused.value.kind == kind


@pytest.mark.parametrize(("data", "generation"), [(COMMIT, "g8"), (COMMIT[:-1], "g9"), (COMMIT[:-1] + b" ", "g9")])
def test_a_commit_that_is_not_bound_is_refused(data: bytes, generation: str) -> None:
    with pytest.raises(ReadRefused) as refused:
        commits.read_commit(data, generation, POINTER, PLACE)
    assert refused.value.kind == "binding-mismatch"


@given(st.binary(max_size=80))
def test_no_bytes_break_the_strict_reader(data: bytes) -> None:
    with pytest.raises(ReadRefused):
        commits.read_pointer(data, PLACE)
    with pytest.raises(ReadRefused):
        commits.read_unbound_commit(data, "r1", PLACE)


def test_candidates_of_one_path_agree_or_are_refused() -> None:
    manifest = load(plain())
    for number, name in enumerate(("merge", "polish")):
        running = lifecycle.begin(manifest, NARRATIO, name, NOW)
        output = Artifact(id="t", path="t.txt", sha256=str(number) * 64, size=1)
        manifest = lifecycle.succeed(running, NARRATIO, name, lifecycle.Result((output,)), NOW)
    with pytest.raises(ResultRefused, match="path of its own"):
        commits.candidates(manifest, NARRATIO)
