"""Hydrate against a service that lies, a folder with links in it, and a run that is cut off wherever it may be."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.clients.errors import ClientError, InvalidAnswer, TransportError
from moorage.clients.hydrate import Difference, Wanted, check, hydrate, replacing, repositories
from moorage.clients.hydrate.local import CannotBeFiles, check_names, folds_case
from tests.clients.hydrate_world import ALL, SLUG, World, read_tree
from tests.support.plane import Plane

BLOBS = Wanted(records=False, trees=("assets",))
ZEROS = "0" * 64


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        made = World(plane)
        yield made
        await made.http.close()


class Answers:
    """Stands for the service where a path ends with one of the names; the rest goes to the plane."""

    def __init__(self, world: World, answers: dict[str, Any]) -> None:
        self.plane = world.transport.before
        self.answers = answers
        self.calls = 0
        world.transport.before = self

    async def __call__(self, request: httpx.Request) -> httpx.Response | None:
        for name, answer in self.answers.items():
            if request.url.path.endswith(name):
                self.calls += 1
                return httpx.Response(200, json=answer(self.calls) if callable(answer) else answer)
        assert self.plane is not None
        return await self.plane(request)


def listing(*blobs: dict[str, Any], cursor: str | None = None) -> dict[str, Any]:
    whole = [{"bytes": 0, "digest": None, "digestVerified": True, **blob} for blob in blobs]
    return {"ok": True, "prefix": "assets/", "blobs": whole, "nextCursor": cursor}


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        ({"path": "../x"}, "below assets/ holds"),
        ({"path": "/etc/x"}, "below assets/ holds"),
        ({"path": "assets/../../x"}, "with the path"),
        ({"path": "assets/.x"}, "with the path"),
        ({"path": "assets/a\\b"}, "with the path"),
        ({"path": "ledger/v1/x"}, "below assets/ holds"),
        ({"path": f"artifacts/exact-review/v1/{ZEROS}"}, "below assets/ holds"),
        ({"path": "assets/x", "bytes": -1}, "size of a blob"),
        ({"path": "assets/x", "bytes": True}, "size of a blob"),
        ({"path": "assets/x", "digest": "zz"}, "no SHA-256"),
        ({"path": 7}, "no text"),
    ],
)
async def test_blobs_that_cannot_be_are_refused_unwritten(
    world: World, tmp_path: Path, blob: dict[str, Any], message: str
) -> None:
    Answers(world, {"blobs/list": listing(blob)})
    with pytest.raises(InvalidAnswer, match=message):
        await hydrate(world.http, tmp_path / "state", BLOBS)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".state.hydrating", ".state.lock"]
    assert not list((tmp_path / ".state.hydrating/tree").iterdir())


async def test_a_claim_of_size_is_not_believed(world: World, tmp_path: Path) -> None:
    await world.blob("assets/x", b"x")
    Answers(world, {"blobs/list": listing({"path": "assets/x", "bytes": 10**15, "digest": ZEROS})})
    await hydrate(world.http, tmp_path / "state", BLOBS)
    assert read_tree(tmp_path / "state") == {"assets/x": b"x"}


async def test_pages_that_never_end_are_ended(world: World, tmp_path: Path) -> None:
    answers = Answers(world, {"blobs/list": lambda call: listing(cursor=f"c{call % 2}")})
    with pytest.raises(InvalidAnswer, match="does not move on"):
        await hydrate(world.http, tmp_path / "state", BLOBS)
    assert answers.calls == 101


@pytest.mark.parametrize("slug", ["..", "a/b", "", ".x", "a" * 201])
async def test_slugs_that_cannot_be_are_refused(world: World, tmp_path: Path, slug: str) -> None:
    Answers(world, {"records/slugs": {"ok": True, "repositories": [{"repoSlug": slug, "revision": 1}]}})
    with pytest.raises(InvalidAnswer, match="no slug"):
        await hydrate(world.http, tmp_path / "state", Wanted(trees=()))


async def test_a_download_that_fails_is_an_error_of_the_client(world: World, tmp_path: Path) -> None:
    await world.fill()
    world.fail = "blobs/chunk"
    with pytest.raises(TransportError, match="blobs/chunk"):
        await hydrate(world.http, tmp_path / "state", ALL)


async def test_a_blob_and_blobs_below_it_are_said(world: World, tmp_path: Path) -> None:
    await world.blob("assets/a", b"1")
    await world.blob("assets/a/b", b"2")
    with pytest.raises(CannotBeFiles, match="both assets/a and assets/a/b"):
        await hydrate(world.http, tmp_path / "state", BLOBS)


def test_names_that_differ_in_case_alone(tmp_path: Path) -> None:
    check_names(["a/B", "a/b"], folding=False)
    with pytest.raises(CannotBeFiles, match="both a/B and a/b"):
        check_names(["a/B", "a/b"], folding=True)
    check_names(["a/B", "b/b", "ab"], folding=True)
    (tmp_path / "Probe").touch()
    assert folds_case(tmp_path) is (tmp_path / "pROBE").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["Probe"]


async def test_links_in_the_old_tree_are_neither_followed_nor_taken_over(world: World, tmp_path: Path) -> None:
    await world.fill()
    target, outside = tmp_path / "state", tmp_path / "outside"
    await hydrate(world.http, target, ALL)
    outside.mkdir()
    for path in ("ledger/v1/a/b.jsonl", f"records/{SLUG}/items/1.md", f"records/{SLUG}/commits/{'a' * 40}.md"):
        (target / path).rename(outside / Path(path).name)
        (target / path).symlink_to(outside / Path(path).name)
    (target / "assets").rename(outside / "assets")
    (target / "assets").symlink_to(outside / "assets")
    (target / f"records/{SLUG}/items/nowhere").symlink_to("/does/not/exist")

    found = await check(world.http, target, ALL)

    assert found == [
        Difference("assets/c.txt", "different"),
        Difference("ledger/v1/a/b.jsonl", "different"),
        Difference(f"records/{SLUG}/commits/{'a' * 40}.md", "different"),
        Difference(f"records/{SLUG}/items/1.md", "different"),
        Difference(f"records/{SLUG}/items/nowhere", "extra"),
    ]
    focused = await check(world.http, target, Wanted(repositories=(SLUG,), items=(1,), trees=()))
    assert [difference.kind for difference in focused] == ["different"]

    await hydrate(world.http, target, ALL)

    assert not [path for path in target.rglob("*") if path.is_symlink()]
    assert (target / "assets/c.txt").stat().st_ino != (outside / "assets/c.txt").stat().st_ino
    assert await check(world.http, target, ALL) == []


async def test_what_hydrate_never_puts_there_is_extra(world: World, tmp_path: Path) -> None:
    await world.fill()
    target = tmp_path / "state"
    await hydrate(world.http, target, ALL)
    for path in ("other/x", "stray", "ledger/v2/x", "records/file", "jobs/1.json"):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(b"x")
    found = await check(world.http, target, ALL)
    assert [(difference.path, difference.kind) for difference in found] == [
        ("ledger/v2", "extra"),
        ("other", "extra"),
        ("records/file", "extra"),
        ("stray", "extra"),
    ]


async def test_a_run_cut_off_at_any_request_is_finished_by_the_next(world: World, tmp_path: Path) -> None:
    await world.fill()
    await world.snapshots.trigger(SLUG)
    await world.item(11, "behind the snapshot\n")
    world.transport.seen.clear()
    await hydrate(world.http, tmp_path / "whole", ALL)
    requests = len(world.transport.seen)
    assert requests > 15
    for cut in range(requests):
        target = tmp_path / f"cut-{cut}"
        world.fail, world.fail_after = "", cut
        with pytest.raises(ClientError):
            await hydrate(world.http, target, ALL)
        assert not target.exists()
        world.fail = None
        report = await hydrate(world.http, target, ALL)
        assert report.resumed
        assert read_tree(target) == world.tree
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith("hydrating")) == []


async def test_a_snapshot_replaced_while_it_is_read_gives_way_to_the_new_one(world: World, tmp_path: Path) -> None:
    await world.fill()
    await world.snapshots.trigger(SLUG)
    replaced = 0

    async def replace(request: httpx.Request) -> None:
        nonlocal replaced
        if request.url.path.endswith("snapshots/chunk") and replaced == 0:
            replaced = 1
            for _ in range(3):
                await world.item(1, "newer\n")
                await world.snapshots.trigger(SLUG)

    world.on_request = replace
    await hydrate(world.http, tmp_path / "state", ALL)
    assert replaced == 1
    assert read_tree(tmp_path / "state") == world.tree


async def test_a_store_that_went_back_is_read_afresh(world: World, tmp_path: Path) -> None:
    await world.fill()
    world.fail = "blobs/list"
    with pytest.raises(TransportError):
        await hydrate(world.http, tmp_path / "state", ALL)
    stale = tmp_path / ".state.hydrating/tree/records" / SLUG / "commits" / f"{'b' * 40}.md"
    stale.write_bytes(b"of the store that was lost\n")
    (tmp_path / ".state.hydrating/tree/records/x-gone/items").mkdir(parents=True)
    state = tmp_path / ".state.hydrating/state.json"
    state.write_bytes(state.read_bytes().replace(f'"{SLUG}":'.encode(), f'"{SLUG}":9'.encode()))
    world.fail = None
    report = await hydrate(world.http, tmp_path / "state", ALL)
    assert report.resumed
    assert read_tree(tmp_path / "state") == world.tree
    assert not (tmp_path / "state/records/x-gone").exists()


@pytest.mark.parametrize("exchange", [True, False])
async def test_a_run_killed_once_the_tree_is_in_its_place_is_not_gone_on_from(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    class Killed(BaseException):
        pass

    def killed(*arguments: Any, **options: Any) -> None:
        raise Killed

    if not exchange:
        monkeypatch.setattr(replacing, "_exchange", lambda one, other: False)
    await world.fill()
    await hydrate(world.http, tmp_path / "state", ALL)
    await world.commit("b" * 40, "later\n")
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", killed)
        with pytest.raises(Killed):
            await hydrate(world.http, tmp_path / "state", ALL)
    assert read_tree(tmp_path / "state") == world.tree

    report = await hydrate(world.http, tmp_path / "state", ALL)

    assert not report.resumed
    assert read_tree(tmp_path / "state") == world.tree
    assert sorted(path.name for path in tmp_path.iterdir()) == [".state.lock", "state"]


async def test_a_journal_that_was_cut_off_goes_on_where_it_was(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "PAGE_ROWS", 4)
    monkeypatch.setattr(repositories, "NOTED_PAGES", 1)
    for number in range(1, 11):
        await world.item(number, f"item {number}\n")
    await world.commit("c" * 40, "commit\n")
    world.fail, world.fail_after = "records/export", 6
    with pytest.raises(TransportError):
        await hydrate(world.http, tmp_path / "state", Wanted(trees=()))
    await world.item(2, None)
    await world.item(9, "changed meanwhile\n")
    await world.commit("d" * 40, "commit\n")
    world.fail = None
    world.transport.seen.clear()

    await hydrate(world.http, tmp_path / "state", Wanted(trees=()))

    asked = [json.loads(request.content) for request in world.transport.seen if "export" in request.url.path]
    assert asked[0]["sinceRevision"] >= 16
    assert read_tree(tmp_path / "state") == world.tree
