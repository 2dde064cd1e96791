"""What hydrate writes and reads: the folder beside the target, the swap, archives that are not what they seem."""

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.errors import ConfigurationError
from moorage.clients.hydrate import staging as staging_module
from moorage.clients.hydrate.archive import UnsafeArchive, extract_paths, extract_snapshot
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
