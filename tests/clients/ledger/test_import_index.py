"""Publication against a state plane: the lock, the index, rebuilding it, and pruning R2."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moorage.clients import connection
from moorage.clients.errors import NotFound
from moorage.clients.http import Http
from moorage.clients.ledger.cli import command
from moorage.clients.ledger.compaction import compact
from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.import_index import LockLost, WorkerIndex
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.publisher import BlobSource, publish_paths, publish_segment, publish_tree
from moorage.clients.ledger.readers import iter_events
from moorage.clients.ledger.verify import verify_tree
from moorage.clients.ledger.worker_blobs import WorkerBlobs
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal

from ...support.ledger_plane import HostedLedger
from ...support.plane import OPERATOR_SECRET
from ...support.sweep_plane import ENVIRONMENT, URL
from .support import NOW_MS, Crash, crash_at, real, record_item, recorder_in
from .test_publisher import shards_of


class Client:
    """A client of the plane: its blobs, with a probe before each put, and the index, with a clock of its own."""

    def __init__(self, http: Http, holder: str) -> None:
        self.http = http
        self.time = 0.0
        self.blobs = ProbedBlobs(http)
        self.index = WorkerIndex(http, holder=holder, ttl_seconds=60, now=lambda: self.time, sleep=self._sleep)
        self.on_wait: Callable[[], object] = lambda: None

    def _sleep(self, seconds: float) -> None:
        self.time += seconds
        self.on_wait()

    def publish(self, source: str) -> Any:
        return publish_tree(self.blobs, source, index=self.index)


class ProbedBlobs(WorkerBlobs):
    def __init__(self, http: Http) -> None:
        super().__init__(http)
        self.probe: Any = lambda path: None
        self.get_probe: Any = lambda path: None

    def get(self, path: str, limit: int) -> bytes | None:
        self.get_probe(path)
        return super().get(path, limit)

    def put(self, path: str, data: bytes) -> bool:
        self.probe(path)
        return super().put(path, data)


class Unreleased(WorkerIndex):
    """Gives no lock back."""

    def ask(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        return {} if verb == "lock-release" else super().ask(verb, body)


class Absent(WorkerIndex):
    """The service has no such routes."""

    def ask(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        raise NotFound(404, "not_found", {"error": "not_found"})


class World:
    def __init__(self, host: HostedLedger) -> None:
        self.host = host
        self._open: list[Http] = []

    def client(self, holder: str = "one", **options: Any) -> Client:
        http = self.host.opened(URL, **options)
        self._open.append(http)
        return Client(http, holder)

    def operator(self) -> WorkerIndex:
        return self.client("operator", operator=True).index

    def advance(self, seconds: float) -> None:
        self.host.run(self.host.plane.clock.advance(round(seconds * 1000)))

    def status(self) -> Any:
        return self.client().index.ask("status", {})

    def paths(self) -> set[str]:
        listed = self.host.run(self.host.plane.bucket.list({"prefix": "ledger/v1/"}))
        assert not listed.truncated
        return {found.key for found in listed.objects}

    def delete(self, *paths: str) -> None:
        self.host.run(self.host.plane.bucket.delete(list(paths)))

    def events(self) -> list[str]:
        return [event.line for event in iter_events(BlobSource(self.client().blobs))]

    def close(self) -> None:
        for http in self._open:
            http.close()
        self.host.close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = World(HostedLedger())
    yield made
    made.close()


def opposing(folder: Path) -> tuple[str, str]:
    """Two trees, each with a child of the other's event."""
    folder.mkdir(exist_ok=True)
    first = recorder_in(folder, clock=iter([NOW_MS] * 9))
    a, b = record_item(first, 1, component="a"), record_item(first, 2, component="b")
    trees = []
    for name, index, component, parent in (("one", 1, "a", b), ("two", 2, "b", a)):
        (folder / name / "out").mkdir(parents=True)
        recorder = recorder_in(folder / name, clock=iter([NOW_MS] * 9))
        record_item(recorder, index, component=component, parent_event_id=parent.event_id)
        finalise(recorder, real(folder / name / "out"))
        trees.append(real(folder / name / "out"))
    return trees[0], trees[1]


def test_a_publication_is_in_the_index_and_readable(world: World, tmp_path: Path) -> None:
    source = shards_of(tmp_path, "a", 5)
    result = world.client().publish(source)
    assert result.created == 1
    assert world.paths() == set(result.paths)
    found = world.status()
    assert (found["sets"], found["complete"], found["events"], found["unfinished"]) == (1, 1, 5, [])
    assert found["lock"]["holder"] is None
    assert world.events() == [event.line for event in iter_events(source)]
    assert world.client("again").publish(source).unchanged == 1


def test_a_publication_cut_anywhere_is_finished_by_another(world: World, tmp_path: Path) -> None:
    source = shards_of(tmp_path, "a", 3)
    other = shards_of(tmp_path, "b", 4)
    for step in range(8):
        one, two, three = world.client("one"), world.client("two"), world.client("three")
        one.blobs.probe, _ = crash_at(step)
        # a process that dies releases nothing
        one.index = Unreleased(one.http, holder="one", ttl_seconds=60)
        try:
            one.publish(source)
        except Crash:
            assert world.events() == []
            assert world.status()["lock"]["holder"] == "one"
        else:
            assert step == 7
            world.advance(61)
            continue
        two.on_wait = lambda: world.advance(30)
        if step > 0:
            # what R2 holds of the dead one's set still counts
            with pytest.raises(LedgerConflict, match="binding-conflict"):
                two.publish(other)
        three.on_wait = lambda: world.advance(30)
        assert three.publish(source).created + three.publish(source).unchanged >= 1
        assert len(world.events()) == 3
        assert world.status()["unfinished"] == []
        world.delete(*world.paths())
        world.operator().rebuild()
        assert world.status()["events"] == 0


def test_what_a_publisher_reserved_and_never_wrote_stands_in_nobodys_way(world: World, tmp_path: Path) -> None:
    one, two = world.client("one"), world.client("two")
    one.blobs.probe, _ = crash_at(0)
    with pytest.raises(Crash):
        one.publish(shards_of(tmp_path, "a", 2))
    assert world.status()["events"] == 2
    two.publish(shards_of(tmp_path, "b", 3))
    assert len(world.events()) == 3


def test_of_two_publishers_with_different_sets_one_wins_and_the_other_wrote_nothing(
    world: World, tmp_path: Path
) -> None:
    one, two = shards_of(tmp_path, "a", 2), shards_of(tmp_path, "b", 3)
    outcomes: dict[str, Any] = {}
    barrier = threading.Barrier(2)

    def run(name: str, source: str) -> None:
        client = world.client(name)
        barrier.wait()
        try:
            outcomes[name] = client.publish(source)
        except LedgerConflict as conflict:
            outcomes[name] = conflict.code

    threads = [threading.Thread(target=run, args=pair) for pair in (("one", one), ("two", two))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = next(name for name, outcome in outcomes.items() if not isinstance(outcome, str))
    assert [outcome for outcome in outcomes.values() if isinstance(outcome, str)] == ["binding-conflict"]
    assert world.paths() == set(outcomes[winner].paths)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_with_opposing_parents_one_commits(world: World, tmp_path: Path, first: int) -> None:
    trees = opposing(tmp_path)
    leader, follower = world.client("leader"), world.client("follower")
    refused: list[str] = []
    entered = threading.Event()

    def follow() -> None:
        entered.wait()
        try:
            follower.publish(trees[1 - first])
        except LedgerRefusal as refusal:
            refused.append(refusal.code)

    thread = threading.Thread(target=follow)
    thread.start()
    leader.blobs.probe = lambda path: entered.set()
    leader.publish(trees[first])
    thread.join()
    assert refused == ["causal-cycle"]
    assert len(world.events()) == 1
    assert len([path for path in world.paths() if "completed-shard-sets" in path]) == 1


def test_a_publisher_that_slept_past_its_lock_starts_again_or_is_refused(world: World, tmp_path: Path) -> None:
    trees = opposing(tmp_path)
    sleeper, other = world.client("sleeper"), world.client("other")
    seen: list[str] = []

    def asleep(path: str) -> None:
        sleeper.blobs.probe = lambda path: None
        sleeper.time += 61
        world.advance(61)
        try:
            other.publish(trees[1])
        except LedgerRefusal as refusal:
            seen.append(refusal.code)

    sleeper.blobs.probe = asleep
    try:
        sleeper.publish(trees[0])
    except LedgerRefusal as refusal:
        seen.append(refusal.code)
    assert seen == ["causal-cycle"]
    assert len(world.events()) == 1


def test_a_lock_that_stays_taken_is_not_waited_for_for_ever(world: World, tmp_path: Path) -> None:
    world.client().index.ask("lock-acquire", {"holder": "somebody", "ttl_seconds": 3600})
    with pytest.raises(LedgerRefusal, match="import-locked"):
        world.client("two").publish(shards_of(tmp_path, "a"))
    assert world.paths() == set()


def test_a_lost_lock_three_times_over_is_an_error(world: World, tmp_path: Path) -> None:
    client = world.client()

    def slow(path: str) -> None:
        client.time += 61
        world.advance(61)

    client.blobs.probe = slow
    with pytest.raises(LockLost, match="time is over"):
        client.publish(shards_of(tmp_path, "a"))
    client.blobs.probe = lambda path: None
    assert client.publish(shards_of(tmp_path, "b")).created == 1


@pytest.mark.parametrize("as_paths", [False, True])
def test_reading_what_is_there_may_take_longer_than_the_lock_lasts(
    world: World, tmp_path: Path, as_paths: bool
) -> None:
    client, one_at_a_time = world.client(), threading.Lock()

    def slow(path: str) -> None:
        with one_at_a_time:
            client.time += 5
            world.advance(5)

    client.blobs.get_probe = slow
    source = shards_of(tmp_path, "a", 24)
    if not as_paths:
        assert client.publish(source).created == 1
        return
    (tmp_path / "state").mkdir()
    listed = "\n".join(import_shards(source, real(tmp_path / "state")).paths) + "\n"
    done = publish_paths(client.blobs, TrustedRoot(real(tmp_path / "state")), listed, index=client.index)
    assert done.unchanged == 0
    assert len(world.events()) == 24


def test_without_the_routes_the_files_alone_decide(world: World, tmp_path: Path) -> None:
    source, client = shards_of(tmp_path, "a"), world.client()
    client.index = Absent(client.http)
    assert client.publish(source).created == 1
    assert len(world.events()) == 2


def test_a_deployment_without_the_binding_is_published_to_as_well(world: World, tmp_path: Path) -> None:
    del world.host.plane.env.LEDGER_INDEX
    assert world.client().publish(shards_of(tmp_path, "a")).created == 1
    assert len(world.events()) == 2


def test_a_path_list_cannot_close_a_circle_either(world: World, tmp_path: Path) -> None:
    trees = opposing(tmp_path)
    client = world.client()
    for at, source in enumerate(trees):
        state = tmp_path / f"state{at}"
        state.mkdir()
        result = import_shards(source, real(state))
        listed = "\n".join(result.paths) + "\n"
        if at == 0:
            publish_paths(client.blobs, TrustedRoot(real(state)), listed, index=client.index)
            assert world.status()["complete"] == 1
        else:
            with pytest.raises(LedgerRefusal, match="causal-cycle"):
                publish_paths(client.blobs, TrustedRoot(real(state)), listed, index=client.index)
    assert len(world.events()) == 1


def test_the_index_is_made_anew_from_the_files(world: World, tmp_path: Path) -> None:
    client = world.client()
    for name in "ab":
        client.publish(shards_of(tmp_path, name, 3, component=name))
    before = world.status()
    assert (before["sets"], before["complete"], before["events"]) == (2, 2, 6)
    # an index that was lost, one that knows too much, and one that is behind
    instance = next(iter(world.host.plane.env.LEDGER_INDEX.live.values()))

    async def forget() -> None:
        for table in ("ledger_sets", "ledger_events"):
            instance.database.connection.execute(f"DELETE FROM {table}")

    world.host.run(forget())
    assert world.status()["events"] == 0
    operator = world.operator()
    assert operator.rebuild() == []
    after = world.status()
    assert {**after, "rebuilt_at": None, "lock": None} == {**before, "rebuilt_at": None, "lock": None}
    marker = next(path for path in world.paths() if "completed-shard-sets" in path)
    gone = next(path for path in world.paths() if "/import-bindings/events/" in path)
    world.delete(marker, gone)
    assert operator.rebuild() == []
    after = world.status()
    assert (after["sets"], after["complete"], after["events"]) == (2, 1, 5)


def test_damaged_files_are_named(world: World, tmp_path: Path) -> None:
    world.client().publish(shards_of(tmp_path, "a"))
    paths = [path for path in sorted(world.paths()) if "import-bindings" in path and "producer-runs" not in path]

    async def spoil(path: str) -> None:
        await world.host.plane.bucket.put(path, b"{}\n")

    for path in paths:
        world.host.run(spoil(path))
    assert sorted(world.operator().rebuild()) == paths
    assert world.status()["sets"] == 0


def published_segment(world: World, folder: Path) -> tuple[Client, str, list[str]]:
    """R2 with a set and the segment of it: client, manifest path, shard paths."""
    client = world.client()
    result = client.publish(shards_of(folder, "a", 4))
    (folder / "state").mkdir()
    import_shards(real(folder / "a" / "out"), real(folder / "state"))
    root = TrustedRoot(real(folder / "state"))
    (segment,) = compact(root, today="2027-01-01", retention_months=1)
    publish_segment(client.blobs, root, segment)
    return client, segment.manifest_path, list(result.event_paths)


def test_shards_in_r2_go_after_compaction_and_readers_see_the_same(world: World, tmp_path: Path) -> None:
    client, manifest, shards = published_segment(world, tmp_path)
    before = world.events()
    runner = CliRunner()
    invoke = {"MOORAGE_URL": URL}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "open_http", world.host.opened)
        dry = runner.invoke(command, ["prune", "--remote", "--dry-run", "--json"], env=invoke)
        assert json.loads(dry.stdout)["removed"] == shards
        assert set(shards) <= world.paths()
        done = runner.invoke(command, ["prune", "--remote", "--json"], env=invoke)
        assert json.loads(done.stdout)["removed"] == shards
    assert not set(shards) & world.paths()
    assert world.events() == before
    assert verify_tree(BlobSource(client.blobs), event_bindings=True).fault is None
    assert list(world.operator().prune(manifest)) == [([], 0)]
    # the same events with other clocks, published again: nothing new, and they go again
    client.publish(shards_of(tmp_path, "late", 4, clock=NOW_MS + 60_000))
    assert world.events() == before
    assert [paths for paths, _ in world.operator().prune(manifest)] == [shards]


def test_prune_is_the_operators(world: World, tmp_path: Path) -> None:
    _, manifest, _ = published_segment(world, tmp_path)
    status, _ = world.host.run(world.host.plane.verb("prune", {"manifest": manifest}))
    assert status == 401
    status, _ = world.host.run(world.host.plane.verb("prune", {"manifest": manifest}, secret=OPERATOR_SECRET))
    assert status == 200


@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [
        ("manifest", "segment-invalid"),
        ("payload", "segment-damaged"),
        ("no payload", "segment-damaged"),
        ("shard", "segment-conflict"),
        ("completion", "import-transaction"),
        ("no completion", "import-transaction"),
        ("no manifest", "missing"),
    ],
)
def test_nothing_goes_that_is_not_whole_elsewhere(world: World, tmp_path: Path, spoil: str, refusal: str) -> None:
    _, manifest, shards = published_segment(world, tmp_path)
    keys = world.paths()
    target = {
        "manifest": manifest,
        "payload": next(key for key in keys if key.startswith("ledger/v1/segments/") and key.endswith(".jsonl")),
        "shard": shards[0],
        "completion": next(key for key in keys if "completed-shard-sets" in key),
    }[spoil.removeprefix("no ")]

    async def work() -> None:
        bucket = world.host.plane.bucket
        if spoil.startswith("no "):
            await bucket.delete(target)
        else:
            found: Any = await bucket.get(target)
            data = bytes(await found.bytes())
            await bucket.put(target, data.replace(b"review", b"revieu"))

    world.host.run(work())
    with pytest.raises(LedgerRefusal) as caught:
        list(world.operator().prune(manifest))
    assert caught.value.code == refusal
    assert shards[0] in world.paths()


def test_the_index_command(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "open_http", world.host.opened)
    monkeypatch.setenv("MOORAGE_URL", URL)
    source = shards_of(tmp_path, "a", 2)
    runner = CliRunner()
    assert runner.invoke(command, ["publish", "--source", source]).exit_code == 0
    shown = runner.invoke(command, ["index"])
    assert shown.output.splitlines() == ["1 sets, 1 complete, 2 events", "lock: free"]
    rebuilt = runner.invoke(command, ["index", "--rebuild", "--json"])
    assert json.loads(rebuilt.stdout)["events"] == 2
    assert json.loads(rebuilt.stdout)["rebuilt_at"] is not None
