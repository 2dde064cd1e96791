"""Hydration: exact trees from snapshot and journal, resumption, the swap, comparison, no process without asking."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.blobs import AsyncBlobs
from moorage.clients.errors import ClientError, ConfigurationError
from moorage.clients.http import AsyncHttp
from moorage.clients.hydrate import Difference, NothingThere, Wanted, check, hydrate, progress
from moorage.clients.hydrate import staging as staging_module
from moorage.clients.hydrate.archive import UnsafeArchive, extract_paths, extract_snapshot
from moorage.clients.hydrate.staging import MARKER, Staging
from moorage.clients.records import AsyncRecords
from moorage.clients.snapshots import AsyncSnapshots
from moorage.protocols import ustar
from tests.support.command_line import ENVIRONMENT, Served, served_plane
from tests.support.http import PlaneTransport
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

SLUG = "acme-widgets"
NOW = START_MS / 1000 + 5
ALL = Wanted()


async def no_sleep(seconds: float) -> None:
    pass


class World:
    """A plane with records, and what it must become in a folder. Requests whose path ends with `fail` are cut."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.fail: str | None = None
        self.fail_after = 0
        self.transport = PlaneTransport(plane, self._before)
        self.http = AsyncHttp(
            "http://127.0.0.1:8787", WEBHOOK_SECRET, transport=self.transport, now=lambda: NOW, sleep=no_sleep
        )
        self.records = AsyncRecords(self.http)
        self.snapshots = AsyncSnapshots(self.http, now=lambda: NOW)
        self.blobs = AsyncBlobs(self.http)
        self.tree: dict[str, bytes] = {}

    async def _before(self, request: httpx.Request) -> httpx.Response | None:
        if self.fail is not None and request.url.path.endswith(self.fail):
            self.fail_after -= 1
            if self.fail_after < 0:
                raise httpx.ReadError("cut")
        return None

    async def item(self, number: int, text: str | None, section: str = "items", slug: str = SLUG) -> None:
        for other in ("items", "closed"):
            self.tree.pop(f"records/{slug}/{other}/{number}.md", None)
        contents = {} if text is None else {section: text.encode()}
        await self.records.put(slug, number, contents)
        if text is not None:
            self.tree[f"records/{slug}/{section}/{number}.md"] = text.encode()

    async def commit(self, sha: str, text: str) -> None:
        await self.records.commit(SLUG, {sha: text.encode()})
        self.tree[f"records/{SLUG}/commits/{sha}.md"] = text.encode()

    async def blob(self, path: str, data: bytes) -> None:
        await self.blobs.put(path, data)
        self.tree[path] = data

    async def fill(self) -> None:
        for number in (1, 2, 10):
            await self.item(number, f"\ufeffitem {number}\n" if number == 2 else f"item {number}\n")
        await self.item(5, "gone\n")
        await self.item(5, None)
        await self.commit("a" * 40, "commit\n")
        await self.item(1, "gadget\n", slug="acme-gadgets")
        await self.blob("ledger/v1/a/b.jsonl", b"{}\n")
        await self.blob("assets/c.txt", b"c" * 300_000)

    def paths(self) -> list[str]:
        return [request.url.path.rpartition("/internal/state/")[2] for request in self.transport.seen]


def read_tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


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


class TestTarget:
    def test_a_folder_of_somebody_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "mine.txt").write_text("x")
        with pytest.raises(ConfigurationError, match="not empty"), Staging(tmp_path / "state", {}).opened():
            pass
        assert (tmp_path / "state" / "mine.txt").read_text() == "x"

    def test_a_file_and_a_link_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        (tmp_path / "link").symlink_to(tmp_path)
        for name in ("file", "link"):
            with pytest.raises(ConfigurationError, match="no folder"), Staging(tmp_path / name, {}).opened():
                pass

    def test_two_runs_exclude_each_other(self, tmp_path: Path) -> None:
        with (
            Staging(tmp_path / "state", {}).opened(),
            pytest.raises(ConfigurationError, match="busy"),
            Staging(tmp_path / "state", {}).opened(),
        ):
            pass

    def test_another_purpose_starts_afresh(self, tmp_path: Path) -> None:
        first = Staging(tmp_path / "state", {"a": 1})
        with first.opened():
            (first.tree / "left").write_text("x")
        with Staging(tmp_path / "state", {"a": 1}).opened() as resumed:
            assert resumed
        with Staging(tmp_path / "state", {"a": 2}).opened() as resumed:
            assert not resumed
            assert not (first.tree / "left").exists()

    @pytest.mark.parametrize("exchange", [True, False])
    def test_the_swap_replaces_the_tree(
        self, tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not exchange:
            monkeypatch.setattr(staging_module, "_exchange", lambda one, other: False)
        for round_ in ("one", "two"):
            staging = Staging(tmp_path / "state", {})
            with staging.opened():
                (staging.tree / round_).write_text("x")
                staging.finish({"format": 1})
        assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [MARKER, "two"]
        assert sorted(path.name for path in tmp_path.iterdir()) == [".state.lock", "state"]

    def test_a_swap_cut_off_in_the_middle_is_undone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / ".state.previous").mkdir()
        (tmp_path / ".state.previous" / MARKER).write_text("{}")
        with Staging(tmp_path / "state", {}).opened():
            assert (tmp_path / "state" / MARKER).exists()

    def test_a_swap_that_fails_brings_the_old_tree_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(staging_module, "_exchange", lambda one, other: False)
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "old").write_text("x")
        with pytest.raises(OSError, match="No such file"):
            staging_module.swap(tmp_path / "not-there", tmp_path / "state", tmp_path / "previous")
        assert (tmp_path / "state" / "old").exists()


def tar_of(*members: tuple[str, bytes, bytes], mode: str = "w:gz") -> io.BytesIO:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode, format=tarfile.USTAR_FORMAT) as archive:  # type: ignore[call-overload]
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            member.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            archive.addfile(member, io.BytesIO(data))
    target.seek(0)
    return target


class TestArchives:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("../items/1.md", tarfile.REGTYPE),
            ("/items/1.md", tarfile.REGTYPE),
            ("items/../../1.md", tarfile.REGTYPE),
            ("items/01.md", tarfile.REGTYPE),
            ("items/1.json", tarfile.REGTYPE),
            ("items/1.md/2.md", tarfile.REGTYPE),
            ("jobs/1.md", tarfile.REGTYPE),
            ("1.md", tarfile.REGTYPE),
            ("items", tarfile.DIRTYPE),
            ("items/1.md", tarfile.SYMTYPE),
            ("items/1.md", tarfile.LNKTYPE),
            ("items/1.md", tarfile.FIFOTYPE),
            ("items/1.md", tarfile.CHRTYPE),
        ],
    )
    def test_what_is_no_record_is_refused_unwritten(self, tmp_path: Path, name: str, kind: bytes) -> None:
        source = tar_of((name, kind, b"x"))

        with pytest.raises(UnsafeArchive):
            extract_snapshot(source, tmp_path / "out", file_count=1, uncompressed_bytes=1)
        assert not (tmp_path / "out").exists()

    def test_more_than_promised_is_refused(self, tmp_path: Path) -> None:
        one, two = ("items/1.md", tarfile.REGTYPE, b"x"), ("items/2.md", tarfile.REGTYPE, b"x")
        for members, files, size in (((one, one), 2, 2), ((one, two), 1, 2), ((one,), 1, 0), ((one,), 2, 1)):
            with pytest.raises(UnsafeArchive):
                extract_snapshot(tar_of(*members), tmp_path, file_count=files, uncompressed_bytes=size)

    def test_a_bomb_is_refused_at_its_first_large_member(self, tmp_path: Path) -> None:
        source = tar_of(("items/1.md", tarfile.REGTYPE, bytes(50_000_000)))

        with pytest.raises(UnsafeArchive, match="more than"):
            extract_snapshot(source, tmp_path, file_count=1, uncompressed_bytes=10**9)

    @given(st.binary(max_size=300), st.integers(0, 200))
    def test_damaged_archives_are_refused(self, noise: bytes, cut: int) -> None:
        import tempfile

        whole = tar_of(("items/1.md", tarfile.REGTYPE, b"x" * 100)).getvalue()
        for data in (noise, whole[: min(cut, len(whole) - 1)]):
            with tempfile.TemporaryDirectory() as folder, pytest.raises(UnsafeArchive):
                extract_snapshot(io.BytesIO(data), Path(folder), file_count=1, uncompressed_bytes=100)

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("jobs/../x", tarfile.REGTYPE),
            ("/jobs/x", tarfile.REGTYPE),
            ("other/x", tarfile.REGTYPE),
            ("jobs/x", tarfile.SYMTYPE),
            ("jobs\\..\\x", tarfile.REGTYPE),
        ],
    )
    def test_git_archives_are_checked_too(self, tmp_path: Path, name: str, kind: bytes) -> None:
        with pytest.raises(UnsafeArchive):
            extract_paths(tar_of((name, kind, b"x"), mode="w:"), tmp_path, ["jobs"])

    def test_git_archives_are_unpacked(self, tmp_path: Path) -> None:
        source = tar_of(("jobs", tarfile.DIRTYPE, b""), ("jobs/a/b.json", tarfile.REGTYPE, b"{}"), mode="w:")

        assert extract_paths(source, tmp_path, ["jobs"]) == 1
        assert (tmp_path / "jobs/a/b.json").read_bytes() == b"{}"


def git(folder: Path, *arguments: str) -> None:
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.test",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.test",
    }  # fmt: skip
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=environment, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "state")
    for path in ("jobs/1.json", "results/a/b.json", "apply-report.json", "records/x/items/1.md", "secret.txt"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "state")
    return folder


class TestGitState:
    async def test_retained_paths_only(self, world: World, tmp_path: Path, clone: Path) -> None:
        await world.fill()
        wanted = Wanted(git_state=clone)

        report = await hydrate(world.http, tmp_path / "state", wanted)

        tree = read_tree(tmp_path / "state")
        expected = {name: name.encode() for name in ("jobs/1.json", "results/a/b.json", "apply-report.json")}
        assert tree == world.tree | expected
        assert report.git_files == 3

    async def test_a_bad_ref_is_said(self, world: World, tmp_path: Path, clone: Path) -> None:
        await world.fill()
        with pytest.raises(ClientError, match="git rev-parse"):
            await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone, git_ref="nowhere"))
        with pytest.raises(ConfigurationError, match="no name"):
            await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone, git_ref="--output=x"))

    async def test_git_sees_no_token(
        self, world: World, tmp_path: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await world.fill()
        monkeypatch.setenv("GITHUB_TOKEN", "t")
        seen: list[dict[str, str]] = []
        real = subprocess.run

        def run(*arguments: Any, **options: Any) -> Any:
            seen.append(options["env"])
            return real(*arguments, **options)

        monkeypatch.setattr(subprocess, "run", run)
        await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone))

        assert seen
        assert not any("TOKEN" in name or "SECRET" in name for environment in seen for name in environment)


class Watched(dict[str, str]):
    """An environment that remembers what was read from it."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    with served_plane(monkeypatch) as made:
        yield made


def test_without_git_state_no_process_starts_and_no_token_is_read(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert served.run("records", "put", SLUG, "7", "--report", _file(tmp_path, "one\n")).exit_code == 0
    started: list[Any] = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        started.append(arguments)
        raise AssertionError("a process was started")

    for name in ("Popen", "run", "call", "check_call", "check_output"):
        monkeypatch.setattr(subprocess, name, refuse)
    for name in ("system", "popen", "fork", "execv", "execve", "posix_spawn"):
        monkeypatch.setattr(os, name, refuse, raising=False)
    names = ("GITHUB_TOKEN", "GH_TOKEN", "CLAWSWEEPER_STATE_TOKEN", "GIT_ASKPASS")
    watched = Watched({**os.environ, **ENVIRONMENT, **dict.fromkeys(names, "t")})
    monkeypatch.setattr(os, "environ", watched)
    import sys

    sys.modules.pop("moorage.clients.hydrate.git_state", None)

    result = served.run("hydrate", str(tmp_path / "state"), "--allow-empty", "--json", env={})

    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["repositories"] == {SLUG: 4}
    assert started == []
    assert not watched.read & set(names)
    assert "moorage.clients.hydrate.git_state" not in sys.modules


def _file(folder: Path, text: str, name: str = "report.md") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_command_hydrates_checks_and_tells_differences(served: Served, tmp_path: Path) -> None:
    for number in ("7", "8"):
        assert served.run("records", "put", SLUG, number, "--report", _file(tmp_path, f"{number}\n")).exit_code == 0
    target = str(tmp_path / "state")
    assert "no bars" not in served.run("hydrate", target, "--allow-empty").output
    assert served.run("hydrate", target, "--check", "--allow-empty").exit_code == 0
    (tmp_path / "state/records" / SLUG / "items/7.md").write_text("x")

    result = served.run("hydrate", target, "--check", "--allow-empty", "--json")

    assert result.exit_code == 1
    assert json.loads(result.output)["differences"] == [{"path": f"records/{SLUG}/items/7.md", "kind": "different"}]
    focused = served.run("hydrate", str(tmp_path / "few"), "--repo", "Acme/Widgets", "--item", "8", "--item", "99")
    assert focused.exit_code == 0
    assert "no record of items 99" in focused.output
    assert read_tree(tmp_path / "few") == {f"records/{SLUG}/items/8.md": b"8\n"}


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--item", "1"), "exactly one repository"),
        (("--repo", "a b"), "neither owner/name nor"),
        (("--no-records", "--no-ledger", "--no-assets"), "nothing is left"),
        (("--check", "--git-state", "."), "no part of it"),
    ],
)
def test_what_makes_no_sense_is_said(
    served: Served, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = served.run("hydrate", str(tmp_path / "state"), *arguments)

    assert result.exit_code != 0
    assert message in result.output.replace("\n", " ")
