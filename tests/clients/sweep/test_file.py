"""The engine on a file: durable replacement, the advisory lock, files that are not to be touched."""

import datetime
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from moorage.clients.sweep import SweepFile, replacing
from moorage.protocols.sweep import Word

NOW = "2026-07-02T12:00:00+00:00"
HELD = (
    f'schema_version: 1\nlease:\n  writer: "w1"\n  timestamp: "{NOW}"\n  ttl_minutes: 60\n'
    "sources: {}\nitems: {}\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sweep.yaml"


@pytest.fixture
def held(path: Path) -> SweepFile:
    """A state that w1 holds."""
    engine = SweepFile(path, now=lambda: NOW)
    assert engine.lease_acquire("w1").word is Word.OK
    assert path.read_text() == HELD
    return engine


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


class TestReplacement:
    def test_parents_are_made_and_only_file_and_lock_are_left(self, held: SweepFile, path: Path) -> None:
        assert names(path) == ["sweep.yaml", "sweep.yaml.lock"]
        assert (path.parent / "sweep.yaml.lock").read_bytes() == b""

    def test_order_of_durability(self, held: SweepFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Content is synced before the rename makes it the state, the folder after."""
        seen: list[str] = []
        fsync, rename = os.fsync, os.replace

        def note_sync(descriptor: int) -> None:
            seen.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
            fsync(descriptor)

        def note_rename(source: str, target: str) -> None:
            seen.append("rename")
            rename(source, target)

        monkeypatch.setattr(os, "fsync", note_sync)
        monkeypatch.setattr(os, "replace", note_rename)
        assert held.upsert_item("s", "1", "{}", "w1").word is Word.OK
        assert seen == ["file", "rename", "folder"]

    @pytest.mark.parametrize("name", ["fsync", "replace"])
    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, held: SweepFile, path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, name, fail)
        outcome = held.upsert_item("s", "1", "{}", "w1")
        assert outcome.word is Word.ERROR
        assert "No space left" in outcome.reason
        assert path.read_text() == HELD
        assert names(path) == ["sweep.yaml", "sweep.yaml.lock"]

    def test_a_writer_killed_before_the_rename_leaves_the_old_state(self, held: SweepFile, path: Path) -> None:
        program = (
            "import os, sys\n"
            "from moorage.clients.sweep import SweepFile\n"
            "os.replace = lambda *_: os._exit(9)\n"
            "SweepFile(sys.argv[1]).upsert_item('s', '1', '{}', 'w1')\n"
        )
        assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
        assert path.read_text() == HELD
        # the lock died with its holder
        assert held.upsert_item("s", "1", "{}", "w1").word is Word.OK

    def test_text_that_cannot_be_written_leaves_the_old_file(self, held: SweepFile, path: Path) -> None:
        outcome = held.upsert_item("s", "\ud83c\udf89", "{}", "w1")
        assert outcome.word is Word.ERROR
        assert path.read_text() == HELD

    def test_permissions_are_kept(self, held: SweepFile, path: Path) -> None:
        path.chmod(0o600)
        assert held.upsert_item("s", "1", "{}", "w1").word is Word.OK
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_symlink_becomes_a_file_and_its_target_stays(self, held: SweepFile, path: Path) -> None:
        target = path.with_name("elsewhere.yaml")
        path.rename(target)
        path.symlink_to(target)
        assert held.upsert_item("s", "1", "{}", "w1").word is Word.OK
        assert not path.is_symlink()
        assert target.read_text() == HELD

    def test_a_call_without_a_change_does_not_write(self, held: SweepFile, path: Path) -> None:
        before = path.stat()
        assert held.validate().word is Word.OK
        assert held.lease_acquire("w2", now=NOW).word is Word.LOCKED
        assert held.cursor_advance("s", "1", "nope", "w1").word is Word.REFUSED
        assert held.lease_release("w2").word is Word.LEASE_LOST
        assert held.upsert_item("s", "1", "[]", "w1").word is Word.ERROR
        after = path.stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


class TestCorrupt:
    @pytest.mark.parametrize("data", [b"", b"# only\n", b"schema_version 1\n", b"\xff\xfe", b"sources: {}\n"])
    def test_it_is_never_written_over(self, path: Path, data: bytes) -> None:
        path.parent.mkdir()
        path.write_bytes(data)
        engine = SweepFile(path)
        outcomes = [
            engine.read(),
            engine.validate(),
            engine.cursor_get("s"),
            engine.upsert_item("s", "1", "{}", "w1"),
            engine.cursor_advance("s", "1", "1", "w1"),
            engine.lease_acquire("w1"),
            engine.lease_release("w1"),
            engine.run_record("w1", "failed", "{}", NOW),
            engine.import_legacy("{}"),
        ]
        assert {outcome.word for outcome in outcomes} == {Word.CORRUPT}
        assert all(outcome.reason for outcome in outcomes)
        assert path.read_bytes() == data

    def test_a_folder_and_a_device_are_corrupt(self, tmp_path: Path) -> None:
        assert SweepFile(tmp_path).read().word is Word.CORRUPT
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        assert SweepFile(fifo).read().word is Word.CORRUPT

    def test_a_file_of_somebody_else_in_a_shared_folder_is_corrupt(
        self, held: SweepFile, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        path.parent.chmod(0o755)
        assert held.read().word is Word.OK
        path.parent.chmod(0o777)
        outcome = held.read()
        assert outcome.word is Word.CORRUPT
        assert "another user" in outcome.reason

    def test_a_path_below_a_file_is_absent_and_cannot_be_made(self, held: SweepFile, path: Path) -> None:
        below = SweepFile(path / "state.yaml")
        assert below.read().word is Word.NO_STATE
        assert below.lease_acquire("w1").word is Word.ERROR
        assert path.read_text() == HELD


class TestLock:
    def test_writers_of_many_processes_lose_nothing(self, held: SweepFile, path: Path) -> None:
        program = (
            "import sys\n"
            "from moorage.clients.sweep import SweepFile\n"
            "engine = SweepFile(sys.argv[1])\n"
            "for number in range(15):\n"
            "    assert engine.upsert_item('s', f'{sys.argv[2]}-{number}', '{}', 'w1').word.value == 'OK'\n"
            "    assert engine.run_record('r', 'aborted-locked', '{}', 't').word.value == 'OK'\n"
        )
        writers = [subprocess.Popen([sys.executable, "-c", program, str(path), str(number)]) for number in range(3)]
        assert [writer.wait() for writer in writers] == [0, 0, 0]
        document = held.read().payload
        assert set(document["items"]) == {f"s:{a}-{b}" for a in range(3) for b in range(15)}
        assert document["last_run"]["outcome"] == "aborted-locked"

    def test_readers_never_see_a_torn_file(self, held: SweepFile) -> None:
        done = threading.Event()
        seen: set[Word] = set()

        def read() -> None:
            while not done.is_set():
                seen.add(held.read().word)

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(60):
            assert held.upsert_item("s", str(number), '{"title": "x"}', "w1").word is Word.OK
        done.set()
        reader.join()
        assert seen == {Word.OK}

    def test_a_second_writer_waits_for_the_first(self, held: SweepFile, path: Path) -> None:
        finished = threading.Event()

        def write() -> None:
            held.upsert_item("s", "1", "{}", "w1")
            finished.set()

        with replacing.locked(path):
            writer = threading.Thread(target=write)
            writer.start()
            assert not finished.wait(0.05)
            assert path.read_text() == HELD
        writer.join()
        assert "s:1" in held.read().payload["items"]

    def test_a_lock_file_that_is_removed_meanwhile_is_locked_anew(
        self, held: SweepFile, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import fcntl

        lock = path.with_name("sweep.yaml.lock")
        real, locks = fcntl.flock, []

        def flock(descriptor: int, how: int) -> None:
            real(descriptor, how)
            locks.append(descriptor)
            if len(locks) == 1:
                lock.unlink()

        monkeypatch.setattr(fcntl, "flock", flock)
        assert held.upsert_item("s", "1", "{}", "w1").word is Word.OK
        assert len(locks) == 2
        assert lock.exists()

    def test_a_lock_file_that_cannot_be_opened_stops_the_writer(self, held: SweepFile, path: Path) -> None:
        lock = path.with_name("sweep.yaml.lock")
        lock.unlink()
        lock.symlink_to("nowhere")
        assert held.upsert_item("s", "1", "{}", "w1").word is Word.ERROR
        assert path.read_text() == HELD

    def test_looking_needs_neither_lock_nor_folder(self, tmp_path: Path) -> None:
        engine = SweepFile(tmp_path / "none" / "sweep.yaml")
        assert engine.read().word is Word.NO_STATE
        assert engine.validate().payload == {"downgraded": []}
        assert engine.lease_release("w").word is Word.OK
        assert engine.upsert_item("s", "1", "{}", "w").word is Word.LEASE_LOST
        assert list(tmp_path.iterdir()) == []


def test_the_clock_is_utc_with_an_offset(path: Path) -> None:
    before = datetime.datetime.now(datetime.UTC)
    engine = SweepFile(path)
    assert engine.lease_acquire("w1", now="").word is Word.OK
    stamp = datetime.datetime.fromisoformat(engine.read().payload["lease"]["timestamp"])
    assert stamp.utcoffset() == datetime.timedelta(0)
    assert before <= stamp <= datetime.datetime.now(datetime.UTC)
