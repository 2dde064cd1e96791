"""Rebuilding a folder from the current verified commit."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.sessions.objects import BucketObjects
from moorage.clients.sessions.publish_stage import run_with
from moorage.clients.sessions.publishing import publish
from moorage.clients.sessions.restoring import restore
from moorage.protocols.sessions import NARRATIO
from moorage.r2.backends.memory import MemoryBackend
from moorage.r2.bucket import Bucket

from ...support.session_folder import CONFIG, SessionFolder
from ...support.session_stores import PLACE, current, files

NOW = "2026-11-30T12:00:00Z"


def test_restore_rebuilds_a_folder(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    result = session.command("restore", "--into", str(tmp_path / "back"), "--json")
    assert result.exit_code == 0, result.output
    back = tmp_path / "back"
    for name in ("t.txt", "m.txt", "r.txt", "e.txt", "out/summary.md", "out/recap.md", "out/cast.md"):
        assert (back / name).read_bytes() == (session.folder / name).read_bytes()
    manifest = json.loads((back / "session-manifest.json").read_text())
    # a commit proves files, and no progress
    assert {record["status"] for record in manifest["stages"].values()} == {"pending"}
    assert manifest["run_id"] == "r1"
    assert [artifact["id"] for artifact in manifest["artifacts"]][:2] == ["extract/refs", "merge/text"]
    assert (back / "moorage.session.toml").read_text() == CONFIG
    for name in ("party.json", "talk.wav"):
        shutil.copy(session.folder / name, back / name)
    restored = SessionFolder.__new__(SessionFolder)
    restored.root, restored.folder = tmp_path, back
    assert "7 files compared, 0 differ" in restored.command("verify").output
    assert "stage prepare is pending" in restored.command("run", "--from", "trim").output
    restored.run()
    assert current(restored).commit.run_id == restored.manifest["run_id"]


def test_restore_replaces_a_folder_only_when_told_and_keeps_it(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    session.write("m.txt", "spoiled")
    before = session.tree()
    refused = session.command("restore")
    assert refused.exit_code == 1
    assert "--replace" in refused.output
    assert session.tree() == before
    shown = json.loads(session.command("restore", "--replace", "--json").stdout)
    former = Path(shown["former"])
    assert (former / "m.txt").read_text() == "spoiled"
    assert (session.folder / "m.txt").read_text() == "hello\n"
    assert (session.folder / "moorage.session.toml").is_file()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    # twice: another name for the former folder
    second = json.loads(session.command("restore", "--replace", "--json").stdout)["former"]
    assert second != shown["former"]


def test_nothing_to_restore(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    result = session.command("restore", "--into", str(tmp_path / "back"))
    assert result.exit_code == 1
    assert "nothing is published" in result.output
    assert not (tmp_path / "back").exists()
    assert session.command("verify", "--remote").output.strip() == "nothing is published"


def test_a_restore_that_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    found = current(session)
    from moorage.clients.sessions.assembly import opener

    async def spoil(objects: Any) -> None:
        await objects._bucket.put(found.commit.artifacts[-1].key, b"other")

    run_with(opener(session.session()), spoil)
    before = {name: data for name, data in session.tree().items() if name.startswith("session/")}
    result = session.command("restore", "--replace")
    assert result.exit_code == 1
    assert "binding-mismatch" in result.output
    assert {name: data for name, data in session.tree().items() if name.startswith("session/")} == before
    assert session.command("verify", "--remote").exit_code == 1


async def test_the_former_folder_is_never_half_replaced(tmp_path: Path) -> None:
    """Where names cannot be exchanged and the second rename fails, the former folder is back."""
    from moorage.clients.sessions import restoring

    bucket = Bucket(MemoryBackend())
    objects = BucketObjects(bucket)
    await publish(objects, PLACE, "r1", tmp_path / "w", files(tmp_path / "w", a="one"), holder="h")
    target = tmp_path / "t"
    target.mkdir()
    (target / "mine").write_text("kept")
    real = os.rename
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restoring, "_exchange", lambda one, other: False)

        def rename(source: Any, to: Any) -> None:
            if Path(source).name.startswith(".t.restoring"):
                raise OSError(5, "Input/output error")
            real(source, to)

        patch.setattr(os, "rename", rename)
        with pytest.raises(OSError, match="Input/output"):
            await restore(objects, PLACE, target, NARRATIO, lambda: NOW, replace_existing=True)
    assert (target / "mine").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t", "w"]


def test_restore_does_not_take_a_folder_from_an_invocation(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    from moorage.clients.sessions.assembly import store_of

    with store_of(session.session()).invocation():
        result = session.command("restore", "--replace")
    assert result.exit_code == 1
    assert "an invocation is running" in result.output
    assert session.command("restore", "--replace").exit_code == 0
