"""Bookmarks restore a point in time, on disk and in memory, also when the process dies between the steps."""

from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError
from moorage.durable_objects.runtime import bookmarks as module

from .conftest import Make


class Notes(DurableObject):
    async def put(self, value: str) -> None:
        await self.ctx.storage.put("note", value)
        self.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (x)")
        self.ctx.storage.sql.exec("INSERT INTO t VALUES (?)", value)

    async def get(self) -> Any:
        return await self.ctx.storage.get("note"), [row.x for row in self.ctx.storage.sql.exec("SELECT x FROM t")]

    async def bookmark(self) -> str:
        return await self.ctx.storage.getCurrentBookmark()

    async def at(self, moment: int) -> str:
        return await self.ctx.storage.getBookmarkForTime(moment)

    async def go_back(self, bookmark: str) -> str:
        return await self.ctx.storage.onNextSessionRestoreBookmark(bookmark)

    async def abort(self) -> None:
        self.ctx.abort("restore")

    async def bookmark_and_write(self) -> str:
        kept = self.ctx.storage.getCurrentBookmark()
        bookmark = await kept
        await self.ctx.storage.put("note", "later")
        return bookmark


@pytest.fixture(params=["disk", "memory"])
async def notes(request: Any, on_disk: Make, in_memory: Make) -> Any:
    make = on_disk if request.param == "disk" else in_memory
    runtime = await make({"Notes": Notes})
    return lambda: runtime.namespaces["w-Notes"].getByName("a")


async def restart(notes: Any) -> None:
    with pytest.raises(DurableObjectError, match="restore"):
        await notes().abort()


async def test_there_and_back_again(notes: Any) -> None:
    await notes().put("one")
    first = await notes().bookmark()
    await notes().put("two")
    second = await notes().bookmark()
    assert first < second
    undo = await notes().go_back(first)
    assert await notes().get() == ["two", ["one", "two"]]
    await restart(notes)
    assert await notes().get() == ["one", ["one"]]
    await notes().go_back(undo)
    await restart(notes)
    assert await notes().get() == ["two", ["one", "two"]]


async def test_a_bookmark_does_not_see_what_comes_after(notes: Any) -> None:
    await notes().put("one")
    bookmark = await notes().bookmark_and_write()
    await notes().go_back(bookmark)
    await restart(notes)
    assert (await notes().get())[0] == "one"


async def test_by_time(notes: Any) -> None:
    await notes().put("one")
    bookmark = await notes().bookmark()
    moment = module.time_of(bookmark)
    assert await notes().at(moment) == bookmark
    with pytest.raises(DurableObjectError, match="No bookmark is kept"):
        await notes().at(moment - 1)


@pytest.mark.parametrize("text", ["nonsense", "0" * 8 + "-" + "0" * 8 + "-" + "0" * 8 + "-" + "0" * 32])
async def test_a_foreign_bookmark_is_refused(notes: Any, text: str) -> None:
    await notes().put("one")
    with pytest.raises(DurableObjectError, match="not a bookmark of this object"):
        await notes().go_back(text)


async def test_only_so_many_are_kept(notes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    await notes().put("one")
    made = [await notes().bookmark() for _ in range(5)]
    with pytest.raises(DurableObjectError, match="no longer kept"):
        await notes().go_back(made[0])
    await notes().go_back(made[-1])


async def test_a_crash_before_the_request_is_withdrawn_restores_again(on_disk: Make, tmp_path: Path) -> None:
    runtime = await on_disk({"Notes": Notes})
    stub = runtime.namespaces["w-Notes"].getByName("a")
    await stub.put("one")
    first = await stub.bookmark()
    await stub.put("two")
    await stub.go_back(first)
    await runtime.close()
    path = next((tmp_path / "state").rglob("*.bookmarks")).with_suffix(".sqlite")
    folder = module.BookmarkFolder(str(path))
    assert folder.restore() == first
    folder.request(first)  # as if the process had died before the last step
    again = await on_disk({"Notes": Notes})
    assert await again.namespaces["w-Notes"].getByName("a").get() == ["one", ["one"]]
    assert folder.pending() is None


async def test_the_oldest_kept_one_can_be_gone_back_to(notes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going back makes a bookmark of the present, which must not push out the one that is asked for."""
    monkeypatch.setattr(module, "KEPT", 3)
    await notes().put("one")
    first = await notes().bookmark()
    await notes().put("two")
    for _ in range(2):
        await notes().bookmark()
    undo = await notes().go_back(first)
    await notes().bookmark()
    await restart(notes)
    assert (await notes().get())[0] == "one"
    await notes().go_back(undo)
    await restart(notes)
    assert (await notes().get())[0] == "two"


async def test_a_request_for_a_lost_copy_leaves_the_object_usable(
    on_disk: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = await on_disk({"Notes": Notes})
    stub = runtime.namespaces["w-Notes"].getByName("a")
    await stub.put("one")
    first = await stub.bookmark()
    await stub.put("two")
    await stub.go_back(first)
    await runtime.close()
    folder = next((tmp_path / "state").rglob("*.bookmarks"))
    (folder / f"{first}.sqlite").unlink()
    for _ in range(2):
        again = await on_disk({"Notes": Notes})
        assert (await again.namespaces["w-Notes"].getByName("a").get())[0] == "two"
        await again.close()
    assert caplog.text.count("is gone and cannot be restored") == 1
