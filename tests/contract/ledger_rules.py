"""The areas of the ledger vectors that need no file system."""

from collections.abc import Callable
from typing import Any

from moorage.protocols.ledger import canonical, identity, timestamps, vocabulary
from moorage.protocols.ledger.admission import Admission
from moorage.protocols.ledger.events import Event, build_event
from moorage.protocols.ledger.paths import data_path, spool_path
from moorage.protocols.ledger.producers import workflow_producer
from moorage.protocols.ledger.projections import is_delivered, projection_request, projection_settings
from moorage.protocols.ledger.publication import is_publishable_path, parse_command_manifest
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.shards import ShardIdentity, build_shards, replay_digest, shard_path
from moorage.protocols.ledger.text import digest_text, machine_text, repository_text, scope_text
from moorage.protocols.ledger.urls import run_url
from moorage.protocols.ledger.validate import parse_event_line, parse_shard_text, validate_record

from .result import refuse_unknown

Case = dict[str, Any]


class OtherClass(Exception):
    """Refused, as it must be, but under another class than the reference's."""


def attempt(case: Case, call: Callable[[], Any]) -> Any:
    """Result of `call`, which must be refused exactly when the case says so."""
    assert case.get("accepted", "rejected" not in case) == ("rejected" not in case), (
        "accepted and rejected, or neither"
    )
    if "rejected" not in case:
        return call()
    try:
        result = call()
    except LedgerRefusal as refusal:
        if refusal.code != case["rejected"]:
            raise OtherClass(f"refused as {refusal.code}, recorded {case['rejected']}") from None
        return None
    raise AssertionError(f"must be refused as {case['rejected']}, but gave {str(result)[:300]}")


def same(case: Case, **values: Any) -> None:
    """Asserts every value that the case records; `true` is not 1."""
    for name, value in values.items():
        if name in case:
            alike = value == case[name] and isinstance(value, bool) == isinstance(case[name], bool)
            assert alike, f"{name}: {str(value)[:600]!r}, recorded {str(case[name])[:600]!r}"


def join_parts(parts: list[tuple[str, int]]) -> str:
    """A text that the vectors keep as repetitions."""
    return "".join(text * times for text, times in parts)


def text_of(case: Case, name: str) -> str:
    """A text given whole or in parts."""
    return str(case[name]) if name in case else join_parts(case[f"{name}_parts"])


def canonical_json(case: Case) -> None:
    text = text_of(case, "input")
    result = attempt(
        case, lambda: canonical.canonical_text(canonical.parse_json(text), identity=case["mode"] == "identity")
    )
    if result is not None:
        same(case, canonical=result, bytes=len(result.encode()), sha256=canonical.sha256_text(result))


def identities(case: Case) -> None:
    arguments = dict(case["args"])
    if "identity_json" in arguments:
        arguments["identity"] = canonical.parse_json(arguments.pop("identity_json"))
    calls: dict[str, Callable[[], str]] = {
        "operation_id": lambda: identity.operation_id(
            arguments["repository"], arguments["operation"], arguments["identity"]
        ),
        "attempt_id": lambda: identity.attempt_id(arguments["operation_id"], arguments["identity"]),
        "idempotency_key": lambda: identity.idempotency_key(arguments["identity"]),
        "event_key": lambda: identity.event_key(arguments["scope"], arguments["identity"]),
        "event_id": lambda: identity.event_id(arguments["repository"], arguments["event_key"]),
        "spool_path": lambda: spool_path(arguments["repository"], digest_text_as_given(arguments["event_id"])),
    }
    result = attempt(case, calls[case["function"]])
    if result is not None:
        same(case, result=result)
        if "preimage" in case:
            assert canonical.sha256_text(case["preimage"]) == result, "the preimage has another digest"


def digest_text_as_given(value: object) -> str:
    """An event id in its given spelling, once it is known to be one."""
    digest_text(value)
    return str(value)


def privacy(case: Case) -> None:
    value = text_of(case, "value")
    kinds: dict[str, Callable[[str], str]] = {
        "machine_text": machine_text,
        "machine_text_128": lambda text: machine_text(text, limit=128),
        "scope": scope_text,
        "repository": repository_text,
        "sha256": digest_text,
        "relative_path": data_path,
        "run_url": run_url,
    }
    result = attempt(case, lambda: kinds[case["kind"]](value))
    if result is not None:
        assert result == case.get("normalized", value)


def timestamp_values(case: Case) -> None:
    if case["group"] == "compare":
        same(case, order=timestamps.compare(case["left"], case["right"]))
        return
    result = attempt(case, lambda: timestamps.timestamp_text(case["value"]))
    if result is not None:
        assert result == case.get("normalized", case["value"])


def vocabularies(case: Case) -> None:
    from .ledger_limits import LIMITS

    values: dict[str, Any] = {
        "event_types": vocabulary.EVENT_TYPES,
        "phase_types": vocabulary.PHASE_TYPES,
        "families": {family: set(names) for family, names in vocabulary.FAMILIES.items()},
        "statuses": vocabulary.STATUSES,
        "reason_codes": vocabulary.REASONS,
        "subject_kinds": vocabulary.SUBJECT_KINDS,
        "attributes": {name: str(kind) for name, kind in vocabulary.ATTRIBUTES.items()},
        "limits": LIMITS,
    }
    recorded = case["values"]
    if isinstance(recorded, list):
        assert len(recorded) == len(set(recorded))
        recorded = set(recorded)
    elif case["name"] == "families":
        recorded = {family: set(names) for family, names in recorded.items()}
    assert values[case["name"]] == recorded


def event_of(given: Case, now: str, generated: str | None = None) -> Event:
    """The event of recorded input."""
    return build_event(given, recorded_at=now, generated_at=generated)


def events(case: Case) -> None:
    result = attempt(case, lambda: event_of(case["input"], case["now"], case.get("generated_occurred_at")))
    if result is None:
        return
    replay = result.replay_text
    same(
        case,
        event_line=result.line,
        event_line_sha256=canonical.sha256_text(result.line),
        event_line_bytes=len(result.line.encode()),
        file_sha256=canonical.sha256_text(result.line + "\n"),
        replay_json=replay,
        replay_sha256=canonical.sha256_text(replay),
        semantic_sha256=result.record["semantic_sha256"],
        spool_path=spool_path(result.record["subject"]["repository"], result.event_id),
    )
    assert validate_record(canonical.parse_json(result.line)).line == result.line


def reader(case: Case) -> None:
    result = attempt(case, lambda: parse_shard_text(case["content"]))
    if result is not None:
        same(case, events=len(result))


def recipe_events(recipe: Case) -> list[Event]:
    """The events that a recipe stands for."""
    made: list[Event] = []
    for index in range(recipe["start"], recipe["start"] + recipe["count"]):
        given = {
            **recipe["base"],
            "eventKey": identity.event_key(recipe["scope"], {"index": index}),
            "phaseSeq": index,
        }
        if recipe.get("pad"):
            given["attributes"] = {"completion_reason": ["x" * recipe["pad"]] * 64}
        if recipe.get("chain") and made:
            given["parentEventId"] = made[-1].event_id
        made.append(event_of(given, recipe["now"]))
    return made


def source_events(case: Case) -> list[Event]:
    """Events given as lines or as recipes."""
    found = [validate_record(canonical.parse_json(line)) for line in case.get("event_lines", ())]
    for recipe in case.get("recipes", ()):
        found += recipe_events(recipe)
    return found[::-1] if case.get("reverse") else found


def shards(case: Case) -> None:
    if case["function"] == "shard_path":
        result = attempt(
            case, lambda: shard_path(ShardIdentity.of_input(case["identity"]), case.get("index"), case.get("count"))
        )
        if result is not None:
            same(case, path=result)
        return
    built = attempt(case, lambda: build_shards(ShardIdentity.of_input(case["identity"]), source_events(case)))
    if built is None:
        return
    same(case, order=[event.event_id for shard in built for event in shard.events])
    assert len(built) == len(case["shards"])
    for shard, recorded in zip(built, case["shards"], strict=True):
        refuse_unknown(recorded, ("path", "sha256", "bytes", "event_count", "replay_sha256", "text"), "shard")
        same(
            recorded,
            path=shard.path,
            sha256=canonical.sha256_text(shard.text),
            bytes=len(shard.text.encode()),
            event_count=len(shard.events),
            replay_sha256=replay_digest(shard.events),
            text=shard.text,
        )


def sanitise(case: Case) -> None:
    result = attempt(case, lambda: workflow_producer(case["env"], case["component"]))
    if result is not None:
        same(case, producer=result)


def publish(case: Case) -> None:
    if case["function"] == "is_publish_path":
        assert is_publishable_path(case["path"]) == case["accepted"]
        return
    result = attempt(case, lambda: parse_command_manifest(case["content"], case["lane"], case["env"]))
    assert (result is not None) == case["accepted"]


def projection(case: Case) -> None:
    requests: list[dict[str, Any]] = []

    def deliver() -> dict[str, Any] | None:
        settings = projection_settings(case["env"])
        if settings is None:
            return None
        request = projection_request(parse_event_line(case["event_line"]), settings)
        sent = {"url": request.url, "method": request.method, "headers": request.headers, "body": request.body}
        requests.append(sent)
        if not is_delivered(case.get("response_status", 200)):
            raise LedgerRefusal("projection-http", "the endpoint did not take the event")
        return sent

    result = attempt(case, deliver)
    same(case, request=requests[0] if requests else None)
    if "rejected" not in case:
        assert (result is None) == bool(case.get("skipped", False))


def projection_queue(case: Case) -> None:
    admission: Admission[str, str] = Admission()
    for number, op in enumerate(case["ops"]):
        started: list[str] = []
        rejected: list[str] = []
        for label in op["labels"]:
            step = admission.enqueue(op["root"], label) if op["op"] == "enqueue" else admission.settled(label)
            started += step.started
            rejected += [refused for refused, _ in step.rejected]
        assert (started, rejected) == (op["started"], op["rejected"]), f"op {number}: {started}, {rejected}"


AREAS: dict[str, Callable[[Case], None]] = {
    "canonical-json": canonical_json,
    "identity": identities,
    "privacy": privacy,
    "timestamps": timestamp_values,
    "vocabulary": vocabularies,
    "events": events,
    "reader": reader,
    "shards": shards,
    "sanitise": sanitise,
    "publish": publish,
    "projection": projection,
    "projection-queue": projection_queue,
}
