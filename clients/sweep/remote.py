"""The sweep engine against a state plane: the same methods and outcomes as `SweepFile`, over signed HTTP."""

import os
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from moorage.protocols.sweep import Outcome, Word, load
from moorage.protocols.sweep.legacy import parse_source_map
from moorage.protocols.sweep.reading import parse_json
from moorage.protocols.sweep.shared import DEFAULT_SWEEP, MAX_BATCH, dumps, path_of

from ..errors import ClientError, InvalidAnswer
from .replacing import Unreadable, locked, make_folder, read_bytes
from .replacing import replace as replace_file

if TYPE_CHECKING:
    from ..http import AsyncHttp, Http

# refusals that are words; 404 also where the service knows no sweeps, and then without one
REFUSALS = (404, 409, 422, 423)

Row = tuple[str, str, Mapping[str, Any]]
"""Source, id and fields of one item."""


class AsyncSharedSweep:
    """A shared sweep by its name. Every method answers with an `Outcome`; what cannot be asked is ERROR.

    `http`: a client signed with the webhook secret (for `load`, with the operator's). `token`: the fencing token that
    lease-bound calls carry; `lease_acquire` sets it when it fences.
    """

    def __init__(self, http: "AsyncHttp", sweep: str = DEFAULT_SWEEP, *, token: int | None = None) -> None:
        self._http = http
        self.sweep = sweep
        self.token = token

    async def _post(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        text = dumps(body).encode("ascii")
        answer = await self._http.request("POST", path_of(verb, self.sweep), text, expect=REFUSALS)
        try:
            value = parse_json(answer.body.decode("utf-8"))
        except ValueError:
            raise InvalidAnswer(f"{verb}: the answer ({answer.status}) is not JSON") from None
        if not isinstance(value, dict) or value.get("word") not in {word.value for word in Word}:
            code = value.get("error") if isinstance(value, dict) else None
            raise InvalidAnswer(f"{verb}: the answer ({answer.status}, {code or 'no code'}) has no status word")
        return value

    async def _call(self, verb: str, body: Mapping[str, Any]) -> Outcome:
        try:
            return _outcome(await self._post(verb, body))
        except ClientError as error:
            return _unasked(error)

    async def read(self) -> Outcome:
        """OK with the document, or NO-STATE."""
        return await self._call("read", {})

    async def validate(self) -> Outcome:
        """OK with `{"downgraded": [keys]}`."""
        return await self._call("validate", {})

    async def cursor_get(self, source: str) -> Outcome:
        """OK with `{"cursor": value or None}`."""
        return await self._call("cursor-get", {"source": source})

    async def upsert_item(self, source: str, item: str, text: str, writer: str) -> Outcome:
        """OK, LEASE-LOST, or ERROR when `text` is no JSON object."""
        body = {"source": source, "id": item, "item": _sendable(text), "writer": writer, "token": self.token}
        return await self._call("upsert-item", body)

    async def upsert_items(self, writer: str, items: Iterable[Row]) -> Outcome:
        """Upserts many items, `MAX_BATCH` in one call; each call is all or none.

        OK with `{"upserted": n}`. Another outcome ends it; its payload says how many went in before.
        """
        done = 0
        rows = [{"source": source, "id": item, "item": dict(fields)} for source, item, fields in items]
        for start in range(0, len(rows), MAX_BATCH):
            batch = rows[start : start + MAX_BATCH]
            outcome = await self._call("upsert-items", {"writer": writer, "token": self.token, "items": batch})
            if outcome.word is not Word.OK:
                return Outcome(outcome.word, {"upserted": done}, reason=outcome.reason)
            done += len(batch)
        return Outcome(Word.OK, {"upserted": done})

    async def cursor_advance(self, source: str, to: str, past_item: str, writer: str) -> Outcome:
        """OK, LEASE-LOST or REFUSED."""
        body = {"source": source, "to": to, "past_item": past_item, "writer": writer, "token": self.token}
        return await self._call("cursor-advance", body)

    async def lease_acquire(self, writer: str, ttl_minutes: int | None = None, *, fenced: bool = True) -> Outcome:
        """OK, STALE-RECLAIMED or LOCKED. With `fenced` later calls carry the token, which the payload shows too."""
        try:
            value = await self._post(
                "lease-acquire", {"writer": writer, "ttl_minutes": ttl_minutes, "fenced": fenced}
            )
        except ClientError as error:
            return _unasked(error)
        outcome = _outcome(value)
        if "token" not in value:
            return outcome
        self.token = value["token"] if fenced else None
        if not fenced:
            return outcome
        return Outcome(outcome.word, {**(outcome.payload or {}), "token": self.token})

    async def lease_release(self, writer: str) -> Outcome:
        """OK or LEASE-LOST."""
        return await self._call("lease-release", {"writer": writer, "token": self.token})

    async def run_record(self, writer: str, outcome: str, counts: str, timestamp: str) -> Outcome:
        """OK. `counts` is JSON text; what is no JSON counts as an empty map, as in the file engine."""
        try:
            tallies = parse_json(counts)
            dumps(tallies)
        except ValueError:
            tallies = {}
        body = {"writer": writer, "outcome": outcome, "counts": tallies, "timestamp": timestamp}
        return await self._call("run-record", body)

    async def import_legacy(self, text: str | None, source_map: str | None = None) -> Outcome:
        """OK with `{"cursors_imported", "items_imported"}`; `text` is None for a file that cannot be read."""
        return await self._call("import-legacy", {"text": text, "source_map": parse_source_map(source_map)})

    async def export(self) -> tuple[Outcome, bytes]:
        """OK and the bytes of the state file, as the file engine writes it; NO-STATE and no bytes."""
        try:
            value = await self._post("export", {})
        except ClientError as error:
            return _unasked(error), b""
        return _outcome(value), str(value.get("document", "")).encode("utf-8")

    async def load(self, data: bytes, *, replace: bool = False) -> Outcome:
        """Makes the bytes of a state file the shared state. CORRUPT, or REFUSED when another state is there."""
        state = load(data)
        if state.reason:
            return Outcome(Word.CORRUPT, reason=state.reason)
        return await self._call("import", {"document": data.decode("utf-8"), "replace": replace})


class SharedSweep:
    """The synchronous face of `AsyncSharedSweep`, over an `Http`, with the signatures of `SweepFile`.

    `now` must be empty wherever it may be given: a shared sweep goes by the clock of its state plane.
    """

    def __init__(self, http: "Http", sweep: str = DEFAULT_SWEEP, *, token: int | None = None) -> None:
        self._http = http
        self._sweep = AsyncSharedSweep(http.asynchronous, sweep, token=token)

    @classmethod
    def open(cls, url: str, sweep: str, *, token: int | None = None, operator: bool = False) -> Self:
        """A client with the secret of the environment. Raises ConfigurationError."""
        from .. import connection

        return cls(connection.open_http(url, operator=operator), sweep, token=token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    @property
    def token(self) -> int | None:
        """The fencing token."""
        return self._sweep.token

    def _run(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        return self._http.loop.run(work)

    def read(self) -> Outcome:
        """See `AsyncSharedSweep.read`."""
        return self._run(self._sweep.read())

    def validate(self) -> Outcome:
        """See `AsyncSharedSweep.validate`."""
        return self._run(self._sweep.validate())

    def cursor_get(self, source: str) -> Outcome:
        """See `AsyncSharedSweep.cursor_get`."""
        return self._run(self._sweep.cursor_get(source))

    def upsert_item(self, source: str, item: str, text: str, writer: str, now: str | None = None) -> Outcome:
        """See `AsyncSharedSweep.upsert_item`."""
        _no_now(now)
        return self._run(self._sweep.upsert_item(source, item, text, writer))

    def upsert_items(self, writer: str, items: Iterable[Row]) -> Outcome:
        """See `AsyncSharedSweep.upsert_items`."""
        return self._run(self._sweep.upsert_items(writer, items))

    def cursor_advance(self, source: str, to: str, past_item: str, writer: str, now: str | None = None) -> Outcome:
        """See `AsyncSharedSweep.cursor_advance`."""
        _no_now(now)
        return self._run(self._sweep.cursor_advance(source, to, past_item, writer))

    def lease_acquire(
        self, writer: str, ttl_minutes: int | None = None, now: str | None = None, *, fenced: bool = True
    ) -> Outcome:
        """See `AsyncSharedSweep.lease_acquire`."""
        _no_now(now)
        return self._run(self._sweep.lease_acquire(writer, ttl_minutes, fenced=fenced))

    def lease_release(self, writer: str) -> Outcome:
        """See `AsyncSharedSweep.lease_release`."""
        return self._run(self._sweep.lease_release(writer))

    def run_record(self, writer: str, outcome: str, counts: str, timestamp: str) -> Outcome:
        """See `AsyncSharedSweep.run_record`."""
        return self._run(self._sweep.run_record(writer, outcome, counts, timestamp))

    def import_legacy(self, text: str | None, source_map: str | None = None) -> Outcome:
        """See `AsyncSharedSweep.import_legacy`."""
        return self._run(self._sweep.import_legacy(text, source_map))

    def export(self, path: Path, *, replace: bool = False) -> Outcome:
        """Writes the state to a file, byte for byte what the file engine would write. REFUSED when one is there."""
        outcome, data = self._http.loop.run(self._sweep.export())
        if outcome.word is not Word.OK:
            return outcome
        try:
            make_folder(path.parent)
            with locked(path):
                if not replace and os.path.lexists(path):
                    return Outcome(Word.REFUSED, reason=f"{path} is there already; --replace replaces it")
                replace_file(path, data)
        except OSError as error:
            return Outcome(Word.ERROR, reason=str(error))
        return Outcome(Word.OK)

    def load(self, path: Path, *, replace: bool = False) -> Outcome:
        """Makes a state file the shared state. NO-STATE without a file, CORRUPT, REFUSED when another is there."""
        try:
            data = read_bytes(path)
        except Unreadable as error:
            return Outcome(Word.CORRUPT, reason=str(error))
        if data is None:
            return Outcome(Word.NO_STATE, reason=f"there is no file {path}")
        return self._run(self._sweep.load(data, replace=replace))


def _outcome(value: Mapping[str, Any]) -> Outcome:
    return Outcome(Word(value["word"]), value.get("payload"), reason=str(value.get("reason") or ""))


def _unasked(error: ClientError) -> Outcome:
    return Outcome(Word.ERROR, reason=str(error))


def _no_now(now: str | None) -> None:
    if now:
        raise ValueError("a shared sweep goes by the clock of its state plane: now must be empty")


def _sendable(text: str) -> Any:
    """The item of `--json`; what is no JSON is sent as a text, which the service refuses after the ownership test."""
    try:
        value = parse_json(text)
        dumps(value)
    except ValueError:
        return text
    return value
