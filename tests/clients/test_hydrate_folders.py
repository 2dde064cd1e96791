"""What hydrate writes and reads: the folder beside the target, the swap, archives that are not what they seem."""

import gzip
import io
import os
import tarfile
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.errors import ConfigurationError
from moorage.clients.hydrate import replacing, staging
from moorage.clients.hydrate.archive import UnsafeArchive, extract_snapshot
from moorage.clients.hydrate.staging import MARKER, Staging


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

    def test_a_mount_point_is_refused_before_anything_is_done(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "state").mkdir()
        monkeypatch.setattr(os.path, "ismount", lambda path: True)
        with pytest.raises(ConfigurationError, match="mount point"), Staging(tmp_path / "state", {}).opened():
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["state"]

    def test_the_lock_is_not_followed_to_a_file_of_somebody_else(self, tmp_path: Path) -> None:
        (tmp_path / "precious").write_text("x")
        (tmp_path / ".state.lock").symlink_to(tmp_path / "precious")
        with pytest.raises(ConfigurationError, match=r"state\.lock cannot be opened"):
            Staging(tmp_path / "state", {}).opened().__enter__()
        assert (tmp_path / "precious").read_text() == "x"

    @pytest.mark.parametrize("name", [".state.hydrating", ".state.previous"])
    def test_folders_that_others_may_have_filled_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ConfigurationError, match="no folder of yours"):
            Staging(tmp_path / "state", {}).opened().__enter__()
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(ConfigurationError, match="no folder of yours"):
            Staging(tmp_path / "state", {}).opened().__enter__()
        assert not (tmp_path / "state").exists()

    def test_after_a_restart_of_the_machine_nothing_unfinished_is_believed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = Staging(tmp_path / "state", {})
        with first.opened():
            first.repositories["a-b"] = 7
            first.save()
        again = Staging(tmp_path / "state", {})
        with again.opened() as resumed:
            assert (resumed, again.repositories) == (True, {"a-b": 7})
        monkeypatch.setattr(staging, "_boot", lambda: "another")
        with again.opened() as resumed:
            assert (resumed, again.repositories) == (False, {})

    @pytest.mark.parametrize("state", [b"[]", b'{"repositories": 1}', b"\xff", b'{"repositories": {"a": "b"}}'])
    def test_a_damaged_state_starts_afresh(self, tmp_path: Path, state: bytes) -> None:
        first = Staging(tmp_path / "state", {})
        with first.opened():
            pass
        kept = (first.folder / "state.json").read_bytes()
        damaged = kept.replace(b'"repositories":{}', state[1:-1]) if state.startswith(b"{") else state
        (first.folder / "state.json").write_bytes(damaged)
        with Staging(tmp_path / "state", {}).opened() as resumed:
            assert not resumed

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
            monkeypatch.setattr(replacing, "_exchange", lambda one, other: False)
        for round_ in ("one", "two"):
            made = Staging(tmp_path / "state", {})
            with made.opened():
                (made.tree / round_).write_text("x")
                made.finish({"format": 1})
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
        monkeypatch.setattr(replacing, "_exchange", lambda one, other: False)
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "old").write_text("x")
        with pytest.raises(OSError, match="No such file"):
            replacing.swap(tmp_path / "not-there", tmp_path / "state", tmp_path / "previous")
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

    @given(st.integers(0, 511), st.integers(1, 255))
    def test_a_changed_header_is_refused(self, at: int, change: int) -> None:
        plain = bytearray(gzip.decompress(tar_of(("items/1.md", tarfile.REGTYPE, b"x" * 100)).getvalue()))
        plain[at] ^= change
        with tempfile.TemporaryDirectory() as folder:
            try:
                source = io.BytesIO(gzip.compress(bytes(plain)))
                extract_snapshot(source, Path(folder), file_count=1, uncompressed_bytes=100)
            except UnsafeArchive:
                assert not list(Path(folder).rglob("*.md"))
            else:
                # a blank for a NUL, or the other way, at the end of a number is no change
                assert 100 <= at < 156 or 329 <= at < 345

    @pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
    def test_archives_of_other_writers_are_read(self, tmp_path: Path, form: int) -> None:
        source = io.BytesIO()
        names = ("closed/2.md", f"commits/{'a' * 40}.md", "decision-packets/1.json", "items/1.md")
        with tarfile.open(fileobj=source, mode="w:gz", format=form) as archive:
            for at, name in enumerate(names):
                member = tarfile.TarInfo(name)
                member.size = at * 511
                archive.addfile(member, io.BytesIO(b"y" * member.size))
        source.seek(0)
        assert extract_snapshot(source, tmp_path, file_count=4, uncompressed_bytes=6 * 511) == 4
        assert [(tmp_path / name).stat().st_size for name in names] == [0, 511, 1022, 1533]

    @given(st.binary(max_size=300), st.integers(0, 200))
    def test_damaged_archives_are_refused(self, noise: bytes, cut: int) -> None:
        whole = tar_of(("items/1.md", tarfile.REGTYPE, b"x" * 100)).getvalue()
        for data in (noise, whole[: min(cut, len(whole) - 1)]):
            with tempfile.TemporaryDirectory() as folder, pytest.raises(UnsafeArchive):
                extract_snapshot(io.BytesIO(data), Path(folder), file_count=1, uncompressed_bytes=100)

    @pytest.mark.parametrize(
        "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE]
    )
    def test_what_describes_other_members_is_refused_before_it_is_read(self, tmp_path: Path, kind: bytes) -> None:
        member = tarfile.TarInfo("items/1.md")
        member.type, member.size = kind, 2**33 - 1
        source = io.BytesIO(gzip.compress(member.tobuf(tarfile.USTAR_FORMAT) + bytes(50_000_000)))

        tracemalloc.start()
        try:
            with pytest.raises(UnsafeArchive, match="no plain file"):
                extract_snapshot(source, tmp_path, file_count=1, uncompressed_bytes=2**34)
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()
