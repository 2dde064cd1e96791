"""Hydration: exact trees from snapshot and journal, resumption, comparison, bars for a person."""

import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from moorage.clients.errors import ClientError
from moorage.clients.hydrate import Difference, NothingThere, Wanted, check, hydrate, progress
from moorage.clients.hydrate.staging import Staging
from moorage.protocols import ustar
from tests.clients.hydrate_world import ALL, SLUG, World, read_tree
from tests.support.plane import Plane


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        made = World(plane)
        yield made
        await made.http.close()


async def test_a_cold_store_is_rebuilt_byte_for_byte(world: World, tmp_path: Path) -> None:
    await world.fill()

    report = await hydrate(world.http, tmp_path / "state", ALL)

    assert read_tree(tmp_path / "state") == world.tree
    assert report.repositories == {SLUG: 25, "acme-gadgets": 25}
    assert report.blobs == {"ledger": 1, "assets": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".state.lock", "state"]


async def test_snapshot_and_journal_make_the_same_tree(world: World, tmp_path: Path) -> None:
    await world.fill()
    await world.snapshots.trigger(SLUG)
    await world.item(2, "item 2 again\n")
    await world.item(10, "closed now\n", "closed")
    await world.item(1, None)
    await world.item(99, "new\n")

    await hydrate(world.http, tmp_path / "state", ALL)

    assert read_tree(tmp_path / "state") == world.tree
    assert "records/snapshots/chunk" in world.paths()


async def send_snapshot(world: World, folder: Path, files: dict[str, bytes], archive: bytes | None = None) -> None:
    """Registers an archive as a runner does: the service proves its coverage and never opens it."""
    identities = [(name.split("/")[0], name.split("/")[1].partition(".")[0]) for name in sorted(files)]
    data = b"".join(ustar.entry(name, files[name]) for name in sorted(files)) + ustar.END
    path = folder / "archive.tar.gz"
    path.write_bytes(gzip.compress(data) if archive is None else archive)
    size = sum(map(len, files.values()))
    await world.snapshots.upload(path, slug=SLUG, watermark=25, uncompressed_bytes=size, identities=identities)


def archived(world: World) -> dict[str, bytes]:
    prefix = f"records/{SLUG}/"
    return {path.removeprefix(prefix): data for path, data in world.tree.items() if path.startswith(prefix)}


async def test_a_snapshot_with_wrong_contents_is_healed(world: World, tmp_path: Path) -> None:
    await world.fill()
    files = archived(world)
    await send_snapshot(world, tmp_path, {**files, "items/10.md": b"not what it was\n", "closed/3.md": b"extra\n"})

    await hydrate(world.http, tmp_path / "state", ALL)

    assert read_tree(tmp_path / "state") == world.tree


@pytest.mark.parametrize(
    "archive", [b"no archive at all", gzip.compress(b"no tar", mtime=0), b""], ids=["text", "no tar", "empty"]
)
async def test_a_snapshot_that_cannot_be_read_gives_way_to_the_journal(
    world: World, tmp_path: Path, archive: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await world.fill()
    await send_snapshot(world, tmp_path, archived(world), archive or None)
    if not archive:
        key = (await world.snapshots.latest(SLUG)).object_key  # type: ignore[union-attr]
        found = await world.plane.bucket.get(key)
        data = bytes(await found.bytes())  # type: ignore[union-attr]
        await world.plane.bucket.put(key, data[:-4] + b"\0\0\0\0")

    await hydrate(world.http, tmp_path / "state", ALL)

    assert read_tree(tmp_path / "state") == world.tree
    assert "replaying the whole journal" in caplog.text


@pytest.mark.parametrize(
    ("path", "after"),
    [("slugs", 0), ("chunk", 0), ("export", 0), ("list", 1), ("list", 9), ("latest", 1)],
)
async def test_an_interrupted_run_leaves_the_target_and_goes_on(
    world: World, tmp_path: Path, path: str, after: int
) -> None:
    await world.fill()
    await world.snapshots.trigger(SLUG)
    target = tmp_path / "state"
    await hydrate(world.http, target, ALL)
    before = read_tree(target)
    await world.item(77, "later\n")
    world.fail, world.fail_after = path, after

    with pytest.raises(ClientError):
        await hydrate(world.http, target, ALL)
    assert read_tree(target) == before

    world.fail = None
    report = await hydrate(world.http, target, ALL)
    assert report.resumed
    assert read_tree(target) == world.tree


async def test_a_resumed_run_does_not_download_again(world: World, tmp_path: Path) -> None:
    await world.fill()
    await world.snapshots.trigger(SLUG)
    world.fail, world.fail_after = "blobs/list", 0
    with pytest.raises(ClientError):
        await hydrate(world.http, tmp_path / "state", ALL)
    world.fail = None
    world.transport.seen.clear()

    await hydrate(world.http, tmp_path / "state", ALL)

    assert "records/snapshots/chunk" not in world.paths()
    assert read_tree(tmp_path / "state") == world.tree


async def test_a_damaged_partial_archive_is_downloaded_anew(world: World, tmp_path: Path) -> None:
    await world.fill()
    made = await world.snapshots.trigger(SLUG)
    staging = Staging(tmp_path / "state", ALL.purpose(world.http.url))
    with staging.opened():
        name = hashlib.sha256(made.object_key.encode()).hexdigest() + ".tar.gz"
        (staging.work / name).write_bytes(b"x" * (made.bytes // 2))

    await hydrate(world.http, tmp_path / "state", ALL)

    assert read_tree(tmp_path / "state") == world.tree


async def test_blobs_that_the_old_tree_has_are_not_downloaded(world: World, tmp_path: Path) -> None:
    await world.fill()
    await hydrate(world.http, tmp_path / "state", ALL)
    (tmp_path / "state" / "ledger/v1/a/b.jsonl").write_bytes(b"spoiled\n")
    world.transport.seen.clear()

    await hydrate(world.http, tmp_path / "state", ALL)

    asked = [json.loads(seen.content)["path"] for seen in world.transport.seen if seen.url.path.endswith("/chunk")]
    assert asked == ["ledger/v1/a/b.jsonl"]
    assert read_tree(tmp_path / "state") == world.tree


async def test_an_asset_that_is_replaced_meanwhile_is_taken_as_it_is_now(world: World, tmp_path: Path) -> None:
    await world.fill()
    replaced: list[str] = []

    async def before(request: httpx.Request) -> None:
        if request.url.path.endswith("/chunk") and b"assets/" in request.content and not replaced:
            replaced.append("assets/c.txt")
            await world.blob("assets/c.txt", b"replaced")

    world.on_request = before

    await hydrate(world.http, tmp_path / "state", ALL)

    assert replaced
    assert read_tree(tmp_path / "state") == world.tree


async def test_focused_items_touch_nothing_else(world: World, tmp_path: Path) -> None:
    await world.fill()
    world.transport.seen.clear()
    wanted = Wanted(repositories=(SLUG,), items=(1, 5, 98), trees=())

    report = await hydrate(world.http, tmp_path / "state", wanted)

    assert read_tree(tmp_path / "state") == {f"records/{SLUG}/items/1.md": b"item 1\n"}
    assert report.missing_items == [98]
    assert len(world.transport.seen) == 12
    assert {path.split("/")[0] for path in world.paths()} == {"records"}
    assert not any("snapshots" in path or "export" in path for path in world.paths())


async def test_nothing_there_is_no_empty_tree(world: World, tmp_path: Path) -> None:
    with pytest.raises(NothingThere, match="no repositories"):
        await hydrate(world.http, tmp_path / "state", ALL)
    with pytest.raises(NothingThere, match="no records of x-y"):
        await hydrate(world.http, tmp_path / "state", Wanted(repositories=("x-y",)))
    with pytest.raises(NothingThere, match="blob trees"):
        await hydrate(world.http, tmp_path / "state", Wanted(records=False))
    assert not (tmp_path / "state").exists()

    await hydrate(world.http, tmp_path / "state", Wanted(allow_empty=True))
    assert read_tree(tmp_path / "state") == {}


async def test_check_names_what_differs_and_writes_nothing(world: World, tmp_path: Path) -> None:
    await world.fill()
    target = tmp_path / "state"
    await hydrate(world.http, target, ALL)
    assert await check(world.http, target, ALL) == []

    (target / f"records/{SLUG}/items/1.md").write_bytes(b"changed\n")
    (target / f"records/{SLUG}/items/2.md").unlink()
    (target / f"records/{SLUG}/closed").mkdir(exist_ok=True)
    (target / f"records/{SLUG}/closed/4.md").write_bytes(b"x")
    (target / f"records/{SLUG}/commits/{'a' * 40}.md").write_bytes(b"x")
    (target / f"records/{SLUG}/notes.txt").write_bytes(b"x")
    (target / "records/other").mkdir()
    (target / "assets/c.txt").write_bytes(b"d" * 300_000)
    (target / "assets/more.txt").write_bytes(b"x")
    (target / "ledger/v1/a/b.jsonl").unlink()
    before = read_tree(target)

    found = await check(world.http, target, ALL)

    assert found == [
        Difference("assets/c.txt", "different"),
        Difference("assets/more.txt", "extra"),
        Difference("ledger/v1/a/b.jsonl", "missing"),
        Difference(f"records/{SLUG}/closed/4.md", "extra"),
        Difference(f"records/{SLUG}/commits/{'a' * 40}.md", "different"),
        Difference(f"records/{SLUG}/items/1.md", "different"),
        Difference(f"records/{SLUG}/items/2.md", "missing"),
        Difference(f"records/{SLUG}/notes.txt", "extra"),
        Difference("records/other", "extra"),
    ]
    assert read_tree(target) == before
    focused = await check(world.http, target, Wanted(repositories=(SLUG,), items=(1, 2, 4), trees=()))
    assert [difference.kind for difference in focused] == ["extra", "different", "missing"]


async def test_bars_are_shown_to_a_person_only(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.fill()
    await world.snapshots.trigger(SLUG)
    assert isinstance(progress.progress_of(), progress.Silent)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert isinstance(progress.progress_of(False), progress.Silent)

    await hydrate(world.http, tmp_path / "state", ALL, progress=progress.progress_of())

    shown = capsys.readouterr()
    assert shown.out == ""
    for label in (f"{SLUG} snapshot", "acme-gadgets journal: 4", "ledger/v1", "assets"):
        assert label in shown.err

    assert await check(world.http, tmp_path / "state", ALL, progress=progress.progress_of()) == []

    shown = capsys.readouterr()
    assert shown.out == ""
    for label in (f"{SLUG} compared: 4", "acme-gadgets compared: 1", "ledger/v1 compared: 1", "assets compared: 1"):
        assert label in shown.err
