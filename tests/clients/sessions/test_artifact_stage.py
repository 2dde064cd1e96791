"""Artifacts of the artifact stage, and saves that fail."""

from pathlib import Path

import pytest

from moorage.clients.sessions.errors import SaveFailed, StageFailed
from moorage.clients.sessions.store import LocalStore
from moorage.clients.sweep.replacing import replace as replace_file

from ...support.session_folder import ALL_CURRENT, CONFIG, DONE, SessionFolder


def test_artifact_error_keeps_earlier_checkpoints_and_resumes(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace("(echo recap; cat out/summary.md)", "(echo recap; exit 4)"))
    assert session.run(status=1)["analyze"] == "failed"
    assert session.dispositions == {"summary": "current", "recap": "failed", "cast": "missing"}
    record = session.manifest["stages"]["analyze"]
    assert "outputs" not in record
    assert "status 4" in record["analyze_artifacts"]["recap"]["diagnostic"]
    session.calls  # noqa: B018 - forget them
    session.edit("(echo recap; exit 4)", "(echo recap; cat out/summary.md)")
    session.run()
    assert session.calls == ["polish", "recap", "cast", "notify"]
    assert session.dispositions == ALL_CURRENT


def test_failed_analyze_makes_delivery_stale_and_dependents_stale(done: SessionFolder) -> None:
    done.edit('echo summary >> calls && cat e.txt > "$MOORAGE_SESSION_OUTPUT"', "exit 5")
    (done.folder / "out" / "summary.md").unlink()
    assert done.run(status=1)["analyze"] == "failed"
    assert done.dispositions == {"summary": "failed", "recap": "stale", "cast": "current"}
    assert done.states == {**DONE, "analyze": "failed", "publish": "stale", "notify": "stale"}


def test_selected_artifacts_leave_unrelated_ones_alone(done: SessionFolder) -> None:
    done.edit('output = "out/cast.md"', 'output = "out/cast.md"\nsemantics = {people = 2}')
    # the aggregate is skipped: the selected closure is current, though an unrelated record is obsolete
    assert done.run("--only", "analyze", "--artifact", "recap") == {"analyze": "reused"}
    assert done.run("--only", "analyze", "--artifact", "recap", "--force") == {"analyze": "succeeded"}
    assert done.dispositions == {"summary": "current", "recap": "current", "cast": "stale"}
    ids = [output["id"] for output in done.manifest["stages"]["analyze"]["outputs"]]
    assert ids == ["summary", "recap"]
    assert done.run("--only", "analyze")["analyze"] == "succeeded"
    assert done.calls[-1] == "cast"
    assert done.dispositions == ALL_CURRENT


@pytest.mark.parametrize(("text", "recap"), [("hello\n", "current"), ("changed\n", "stale")])
def test_a_rebuilt_output_is_compared_by_its_bytes(done: SessionFolder, text: str, recap: str) -> None:
    done.edit('reads = ["extract/refs"]', 'reads = ["extract/refs"]\nsemantics = {prompt = 2}')
    done.write("e.txt", text)
    assert done.run("--only", "analyze", "--artifact", "summary")["analyze"] == "succeeded"
    assert done.dispositions == {"summary": "current", "recap": recap, "cast": "current"}


class Failing:
    """Writes the manifest, but not the `number`-th time that `when` holds for the text."""

    def __init__(self, when: str, number: int = 1, after: bool = False) -> None:
        self._when, self._left, self._after = when, number, after
        self.failed = 0

    def __call__(self, path: Path, data: bytes) -> None:
        if self._when in data.decode():
            self._left -= 1
            if self._left == 0:
                self.failed += 1
                if self._after:
                    replace_file(path, data)
                raise OSError(28, "No space left on device")
        replace_file(path, data)


def test_checkpoint_failure_rolls_back_to_the_last_saved_collection(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run("--to", "extract")
    # the first save that says that recap is current
    write = Failing('"path": "out/recap.md"')
    with pytest.raises(StageFailed) as failed:
        session.runner("r-checkpoint", write=write).run()
    assert isinstance(failed.value.original, SaveFailed)
    assert failed.value.saving is None
    assert write.failed == 1
    assert (session.folder / "out" / "recap.md").is_file(), "new bytes stay, incidental"
    assert session.states == {**DONE, "analyze": "failed", "publish": "pending", "notify": "pending"}
    assert session.dispositions == {"summary": "current", "recap": "failed", "cast": "missing"}
    session.calls  # noqa: B018 - forget them
    session.run()
    assert session.calls == ["polish", "recap", "cast", "notify"]


def test_a_save_that_failed_after_it_was_made_is_read_again(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    write = Failing('"path": "m.txt"', after=True)
    with pytest.raises(StageFailed):
        session.runner("r1", write=write).run(last="merge")
    assert session.states["merge"] == "failed"
    assert "outputs" not in session.manifest["stages"]["merge"]


def test_a_second_failure_is_joined_with_the_first(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace("cp t.txt m.txt", "echo it broke; exit 7"))
    with pytest.raises(StageFailed) as failed:
        session.runner("r1", write=Failing('"status": "failed"')).run(last="merge")
    assert "status 7" in str(failed.value)
    assert "No space left" in str(failed.value)
    assert failed.value.saving is not None
    # as after a process's death: the next run takes it for not successful
    assert session.states["merge"] == "running"
    session.edit("echo it broke; exit 7", "cp t.txt m.txt")
    assert session.run("--to", "merge") == {"prepare": "reused", "transcribe": "reused", "merge": "succeeded"}


def test_a_store_refuses_to_save_until_it_was_loaded_again(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run("--to", "prepare")
    store = LocalStore(session.folder / "session-manifest.json", write=Failing("", 1))
    manifest = store.load()
    assert manifest is not None
    with pytest.raises(SaveFailed, match="No space"):
        store.save(manifest)
    with pytest.raises(SaveFailed, match="load the manifest again"):
        store.save(manifest)
    store.load()
    assert store.save(manifest).updated_at >= manifest.updated_at
