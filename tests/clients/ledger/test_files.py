"""Trusted roots: what they refuse, and what a reader never hangs on."""

import os
from pathlib import Path

import pytest

from moorage.clients.ledger.files import TrustedRoot
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import Crash, crash_at, real, tree


def _code(call: object, *arguments: object) -> str:
    with pytest.raises(LedgerRefusal) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


@pytest.mark.parametrize("spelled", ["", "relative", "{}/", "{}/.", "{}/x/..", "//{}"])
def test_a_root_is_its_own_real_absolute_path(tmp_path: Path, spelled: str) -> None:
    assert _code(TrustedRoot, spelled.replace("{}", real(tmp_path))) == "root"


def test_a_root_is_a_directory_and_no_link(tmp_path: Path) -> None:
    base = Path(real(tmp_path))
    (base / "file").write_text("")
    (base / "folder" / "inner").mkdir(parents=True)
    (base / "link").symlink_to("folder")
    assert _code(TrustedRoot, str(base / "file")) == "unsafe-entry"
    assert _code(TrustedRoot, str(base / "link")) == "unsafe-entry"
    assert _code(TrustedRoot, str(base / "link" / "inner")) == "root"
    assert _code(TrustedRoot, str(base / "absent")) == "missing"


def test_a_replaced_root_is_noticed(tmp_path: Path) -> None:
    base = Path(real(tmp_path))
    (base / "root").mkdir()
    root = TrustedRoot(str(base / "root"))
    (base / "root").rename(base / "old")
    (base / "root").mkdir()
    assert _code(root.create, "a", b"") == "unsafe-entry"
    assert tree(base) == {}


@pytest.mark.parametrize("path", ["", "/a", "a/../b", "./a", "a//b", "a/", "a\0b"])
def test_relative_paths_stay_inside(tmp_path: Path, path: str) -> None:
    root = TrustedRoot(real(tmp_path))
    assert _code(root.read, path, 1) == "relative-path"
    assert _code(root.create, path, b"") == "relative-path"


def test_links_and_special_files_are_refused_and_nothing_hangs(tmp_path: Path) -> None:
    base = Path(real(tmp_path))
    root = TrustedRoot(str(base))
    (base / "target").write_text("secret")
    (base / "link").symlink_to("target")
    (base / "folder").mkdir()
    (base / "inner").symlink_to("folder")
    os.mkfifo(base / "fifo")
    for name in ("link", "fifo", "folder", "inner/x"):
        assert _code(root.read, name, 100) == "unsafe-entry", name
    assert _code(root.create, "inner/x", b"1") == "unsafe-entry"
    assert _code(root.create, "target/x", b"1") == "unsafe-entry"
    assert root.create("fifo", b"1") == "exists"
    assert root.create("link", b"1") == "exists"
    assert (base / "target").read_text() == "secret"


def test_reads_are_capped_before_the_file_is_held(tmp_path: Path) -> None:
    root = TrustedRoot(real(tmp_path))
    (tmp_path / "big").write_bytes(b"x" * 11)
    assert _code(root.read, "big", 10) == "byte-limit"
    content = root.read("big", 11)
    assert content is not None
    assert content.data == b"x" * 11
    assert root.read("absent/none", 1) is None


def test_a_file_is_made_once(tmp_path: Path) -> None:
    root = TrustedRoot(real(tmp_path))
    assert root.create("a/b/c", b"first") == "created"
    assert root.create("a/b/c", b"second") == "exists"
    assert tree(tmp_path) == {"a/b/c": b"first"}
    assert (tmp_path / "a/b/c").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["c"]


def test_a_crash_leaves_the_staging_file_at_most(tmp_path: Path) -> None:
    for step in range(20):
        folder = Path(real(tmp_path)) / str(step)
        folder.mkdir()
        probe, seen = crash_at(step)
        try:
            TrustedRoot(str(folder), probe=probe).create("a/b", b"content")
        except Crash:
            assert tree(folder) in ({}, {"a/b": b"content"})
            assert TrustedRoot(str(folder)).create("a/b", b"content") in ("created", "exists")
        assert tree(folder) == {"a/b": b"content"}
        if len(seen) <= step:
            return
    pytest.fail("a file takes no 20 steps")


def test_listings_are_capped_and_say_what_links_are(tmp_path: Path) -> None:
    root = TrustedRoot(real(tmp_path))
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("")
    (tmp_path / "c").symlink_to("a")
    limit = LedgerRefusal("entries", "too many")
    found = [(entry.name, entry.kind) for entry in root.entries("", 3, lambda: limit)]
    assert found == [("a", "file"), ("b", "folder"), ("c", "other")]
    assert _code(root.entries, "", 2, lambda: limit) == "entries"
