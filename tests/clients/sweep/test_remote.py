"""The shared form through the same command: the recorded sequences, moving between file and object, fencing."""

import base64
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from moorage.clients import connection
from moorage.clients.http import AsyncHttp
from moorage.clients.sweep import AsyncSharedSweep, SharedSweep, SweepFile, cli
from moorage.protocols.sweep import Standing, Word, emit, load
from tests.contract.sweep import check_output
from tests.support.http import PlaneTransport
from tests.support.plane import WEBHOOK_SECRET
from tests.support.sweep_plane import ENVIRONMENT, URL, HostedPlane, SweepPlane, no_sleep

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "sweep"
SERVICE_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?\+00:00")
NOW = "2026-07-02T12:00:00+00:00"


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostedPlane]:
    """A state plane to which every client of a command talks."""
    made = HostedPlane()
    monkeypatch.setattr(connection, "open_http", made.opened)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def run(*arguments: str, sweep: str = "default") -> Any:
    return CliRunner().invoke(cli.command, [*arguments, "--remote", URL, "--sweep", sweep])


def exported(tmp_path: Path, sweep: str) -> bytes | None:
    path = tmp_path / f"{sweep}.yaml"
    result = run("export", "--to", str(path), "--replace", sweep=sweep)
    return path.read_bytes() if result.stdout == "OK\n" else None


class NotShared(Exception):
    """The sequence is about something that a shared state does not have."""


def start(sequence: dict[str, Any], folder: Path, sweep: str) -> None:
    """Imports what the sequence begins with. Raises NotShared for files that a shared state cannot hold."""
    before: str | None = sequence.get("state_before")
    data = None if before is None else before.encode()
    if "state_before_b64" in sequence:
        data = base64.b64decode(sequence["state_before_b64"])
    for name, text in sequence.get("files", {}).items():
        (folder / name).write_text(text)
    if data is None:
        return
    state = load(data)
    parts = [state.document.get(name) for name in ("sources", "items")]
    if state.standing is not Standing.OK or not all(isinstance(part, dict) for part in parts):
        raise NotShared("it begins with a file that is corrupt, or whose parts have another type")
    path = folder / "before.yaml"
    path.write_bytes(data)
    assert run("import", "--from", str(path), sweep=sweep).stdout.startswith("OK\n")


def remote_arguments(step: dict[str, Any], hosted: HostedPlane, folder: Path) -> list[str]:
    """The step's arguments without `--state` and `--now`; the service's clock is put to the latter."""
    if step.get("mask"):
        raise NotShared("it reads the machine's clock")
    words = iter(step["argv"])
    kept: list[str] = []
    for word in words:
        if word == "--state":
            next(words)
        elif word == "--now":
            now = next(words)
            if not SERVICE_STAMP.fullmatch(now):
                raise NotShared(f"{now} is no stamp of the service's clock")
            hosted.plane.stand_at(now)
        else:
            kept.append(word.replace("{dir}", str(folder)))
    if not kept or step["expect"]["exit"] or "--state={state}" in kept:
        raise NotShared("it is about the arguments of a file")
    return kept


def replay(sequence: dict[str, Any], hosted: HostedPlane, folder: Path, sweep: str) -> None:
    start(sequence, folder, sweep)
    for step in sequence["steps"]:
        arguments = remote_arguments(step, hosted, folder)
        if "NaN" in str(step["argv"]):
            raise NotShared("JSON has no number that is not finite")
        before = exported(folder, sweep)
        result = run(*arguments, sweep=sweep)
        check_output(step["expect"], result.exit_code, result.stdout)
        after = exported(folder, sweep)
        wanted = step["expect"].get("state_after")
        assert after == (before if wanted is None else wanted.encode())


def test_the_recorded_sequences_hold_for_the_shared_form(hosted: HostedPlane, tmp_path: Path) -> None:
    """Every sequence that a shared state can hold, byte for byte in what it exports; why each other is left out."""
    hosted.signature_version = 1
    played: list[str] = []
    left_out: dict[str, str] = {}
    numbers = itertools.count()
    for path in sorted(VECTORS.glob("*.json")):
        for sequence in json.loads(path.read_text())["sequences"]:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            try:
                replay(sequence, hosted, folder, f"sweep-{folder.name}")
            except NotShared as reason:
                left_out[sequence["id"]] = str(reason)
            else:
                played.append(sequence["id"])
    assert len(played) > 140, left_out
    assert {"upsert-json-duplicate-keys", "lease-lost-before-bad-json", "run-crash-recovery"} <= set(played)
    assert {"read-full", "cursor-iso", "upsert-numbers", "legacy-yaml", "sensitive-sticks"} <= set(played)


class TestMoving:
    def test_a_file_comes_back_byte_for_byte(self, hosted: HostedPlane, tmp_path: Path) -> None:
        path, back = tmp_path / "sweep.yaml", tmp_path / "back.yaml"
        document = {
            "schema_version": 2,
            "lease": {"writer": "w1", "timestamp": NOW, "ttl_minutes": "5", "host": "h"},
            "sources": {"s": {"cursor": 5, "zone": "eu"}, "odd": "x"},
            "items": {"s:1": {"n": 10**30, "f": -0.0, "e": 1e22, "t": "é🎉\x7f\ud800"}, "s:2": None, "": [1.0]},
            "last_run": {"counts": {"a": {}}},
            "future": [{"b": 1, "a": True}],
            "ü": "x",
        }
        SweepFile(path).put(document)
        assert run("import", "--from", str(path)).stdout == 'OK\n{"items": 3, "sources": 2}\n'
        assert run("export", "--to", str(back)).stdout == "OK\n"
        assert back.read_bytes() == path.read_bytes() == emit(document).encode()
        assert json.loads(run("read").stdout.splitlines()[1]) == document

    def test_nothing_is_replaced_unasked(self, hosted: HostedPlane, tmp_path: Path) -> None:
        path = tmp_path / "sweep.yaml"
        SweepFile(path).lease_acquire("w1", now=NOW)
        assert run("import", "--from", str(path)).stdout.startswith("OK\n")
        # the same again, as after an answer that was lost
        assert run("import", "--from", str(path)).stdout.startswith("OK\n")
        SweepFile(path).run_record("w1", "failed", "{}", NOW)
        result = run("import", "--from", str(path))
        assert (result.exit_code, result.stdout) == (0, "REFUSED\n")
        assert run("export", "--to", str(path)).stdout == "REFUSED\n"
        assert run("import", "--from", str(path), "--replace").stdout.startswith("OK\n")
        assert run("export", "--to", str(path), "--replace").stdout == "OK\n"

    def test_what_cannot_be_moved(self, hosted: HostedPlane, tmp_path: Path) -> None:
        path = tmp_path / "sweep.yaml"
        assert run("import", "--from", str(path)).stdout == "NO-STATE\n"
        assert run("export", "--to", str(path)).stdout == "NO-STATE\n"
        for text in ("plain\n", "schema_version: 1\nitems: []\n", "schema_version: 1\nx: nan\n"):
            path.write_text(text)
            result = run("import", "--from", str(path))
            assert (result.exit_code, result.stdout) == (0, "CORRUPT\n")
            assert result.stderr
        assert run("read").stdout == "NO-STATE\n"

    def test_what_is_not_finite_is_an_error(self, hosted: HostedPlane, tmp_path: Path) -> None:
        assert run("lease-acquire", "--writer", "w").stdout == "OK\n"
        arguments = ["upsert-item", "--id", "1", "--source", "s", "--writer", "w", "--json", '{"a": NaN}']
        assert run(*arguments).stdout == "ERROR\n"
        legacy = tmp_path / "legacy.json"
        legacy.write_text('{"items": {"a": {"status": NaN}}}')
        assert run("import-legacy", "--file", str(legacy)).stdout == "ERROR\n"
        assert json.loads(run("read").stdout.splitlines()[1])["items"] == {}


class TestCommand:
    def test_fenced(self, hosted: HostedPlane) -> None:
        hosted.plane.stand_at(NOW)
        taken = run("lease-acquire", "--writer", "w1", "--fenced")
        assert taken.stdout == 'OK\n{"token": 1}\n'
        upsert = ["upsert-item", "--id", "1", "--source", "s", "--json", "{}", "--writer", "w1"]
        assert run(*upsert).stdout == "LEASE-LOST\n"
        assert run(*upsert, "--token", "1").stdout == "OK\n"
        assert run(*upsert, "--token", "2").stdout == "LEASE-LOST\n"
        assert run("lease-release", "--writer", "w1").stdout == "LEASE-LOST\n"
        assert run("lease-release", "--writer", "w1", "--token", "1").stdout == "OK\n"

    @pytest.mark.parametrize("more", [["--now", NOW], ["--git", "origin", "main"]])
    def test_what_belongs_to_a_file(self, hosted: HostedPlane, more: list[str]) -> None:
        result = run("lease-acquire", "--writer", "w1", *more)
        assert (result.exit_code, result.stdout) == (2, "")

    def test_without_a_secret(self, hosted: HostedPlane, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CLAWSWEEPER_WEBHOOK_SECRET")
        result = run("read")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "CLAWSWEEPER_WEBHOOK_SECRET" in result.stderr

    def test_a_service_that_knows_no_sweeps_is_an_error(self, hosted: HostedPlane) -> None:
        del hosted.plane.env.SWEEP_STATE
        result = run("read")
        assert (result.exit_code, result.stdout) == (0, "ERROR\n")
        assert "sweep_state_not_configured" in result.stderr
        result = run("read", sweep="no/such/path")
        assert result.stdout == "ERROR\n"
        assert "not_found" in result.stderr


def client(plane: SweepPlane, **more: Any) -> AsyncHttp:
    transport = more.pop("transport", None) or PlaneTransport(plane)
    now = lambda: plane.clock.now() / 1000  # noqa: E731
    return AsyncHttp(URL, WEBHOOK_SECRET, transport=transport, now=now, sleep=no_sleep, **more)


async def test_a_holder_stopped_past_its_time_to_live_is_fenced_when_it_goes_on() -> None:
    async with SweepPlane() as plane, client(plane) as http:
        first, second, again = (AsyncSharedSweep(http, "repo") for _ in range(3))
        assert (await first.lease_acquire("w1", 10)).payload == {"token": 1}
        assert (await first.upsert_item("s", "1", '{"status": "ingested"}', "w1")).word is Word.OK
        # w1 is stopped here, with its next write in hand, for longer than its ten minutes
        await plane.advance(10 * 60_000)
        assert (await second.lease_acquire("w2", 10)).word is Word.LOCKED
        await plane.advance(1)
        taken = await second.lease_acquire("w2", 10)
        assert taken.word is Word.STALE_RECLAIMED
        assert taken.payload["previous_writer"] == "w1"
        assert taken.payload["token"] == 2
        assert (await second.upsert_item("s", "1", '{"status": "acknowledged"}', "w2")).word is Word.OK
        assert (await second.lease_release("w2")).word is Word.OK
        # even where another process took the lease under the stopped one's very name
        assert (await again.lease_acquire("w1", 10)).payload == {"token": 3}
        before = await again.export()
        # w1 goes on
        late = [
            await first.upsert_item("s", "1", '{"status": "closed"}', "w1"),
            await first.upsert_items("w1", [("s", "2", {})]),
            await first.cursor_advance("s", "9", "1", "w1"),
            await first.lease_release("w1"),
        ]
        assert {outcome.word for outcome in late} == {Word.LEASE_LOST}
        assert all("token 1 is over" in outcome.reason for outcome in late)
        assert await again.export() == before
        assert (await again.upsert_item("s", "1", '{"status": "analyzed"}', "w1")).word is Word.OK


async def test_a_lost_answer_is_asked_again_and_changes_nothing_more() -> None:
    async with SweepPlane() as plane:
        lose = [True]

        async def before(request: httpx.Request) -> httpx.Response | None:
            if lose.pop() if lose else False:
                await transport.handle_async_request(request)
                raise httpx.ReadError("cut off after the write")
            return None

        transport = PlaneTransport(plane, before)
        async with client(plane, transport=transport) as http:
            sweep = AsyncSharedSweep(http)
            # the first acquisition went through unheard: the second is the holder's own, with a newer token
            assert (await sweep.lease_acquire("w1")).payload == {"token": 2}
            for work in (
                sweep.upsert_item("s", "1", "{}", "w1"),
                sweep.cursor_advance("s", "5", "1", "w1"),
                sweep.lease_release("w1"),
            ):
                lose.append(True)
                assert (await work).word is Word.OK


async def test_many_items_in_batches() -> None:
    async with SweepPlane() as plane, client(plane) as http:
        sweep = AsyncSharedSweep(http)
        rows = [("s", str(number), {"n": number}) for number in range(2500)]
        assert (await sweep.upsert_items("w1", rows)).word is Word.LEASE_LOST
        await sweep.lease_acquire("w1")
        assert (await sweep.upsert_items("w1", rows)).payload == {"upserted": 2500}
        assert len((await sweep.read()).payload["items"]) == 2500
        spoiled: list[Any] = [*rows[:1500], ("s", "bad", {"n": "x" * 2_000_000})]
        outcome = await sweep.upsert_items("w1", spoiled)
        assert (outcome.word, outcome.payload) == (Word.ERROR, {"upserted": 1000})
        assert '"s:bad" would be larger' in outcome.reason


def test_the_synchronous_face_refuses_a_clock(hosted: HostedPlane) -> None:
    with SharedSweep.open(URL, "x") as sweep:
        assert sweep.token is None
        assert sweep.lease_acquire("w1", now="").payload == {"token": 1}
        assert sweep.token == 1
        assert sweep.upsert_items("w1", [("s", "1", {})]).payload == {"upserted": 1}
        with pytest.raises(ValueError, match="clock of its state plane"):
            sweep.upsert_item("s", "1", "{}", "w1", NOW)
