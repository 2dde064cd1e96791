"""Packages that a Worker brings in its own folder."""

from pathlib import Path

import pytest

from moorage.wrangler_compat.host.testing import WorkerOptions, WorkerServer

WRANGLER = """
name = "vendored"
main = "src/entry.py"
compatibility_date = "{date}"
compatibility_flags = ["python_workers"]
"""
ENTRY = """
from workers import Response, WorkerEntrypoint

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        names = []
        for name in ("brought", "older", "hidden"):
            try:
                names.append(__import__(name).NAME)
            except ImportError:
                pass
        return Response.json(names)
"""


def lay(folder: Path, date: str) -> Path:
    (folder / "src").mkdir()
    (folder / "wrangler.toml").write_text(WRANGLER.format(date=date))
    (folder / "src" / "entry.py").write_text(ENTRY)
    (folder / "python_modules" / "brought").mkdir(parents=True)
    (folder / "python_modules" / "brought" / "__init__.py").write_text("NAME = 'python_modules'\n")
    (folder / "vendor").mkdir()
    (folder / "vendor" / "older.py").write_text("NAME = 'vendor'\n")
    (folder / "python_modules" / "parts").mkdir()
    (folder / "python_modules" / "parts" / "hidden.py").write_text("NAME = 'by a path file'\n")
    (folder / "python_modules" / "parts.pth").write_text("parts\n")
    return folder


def test_vendored_packages(tmp_path: Path) -> None:
    with WorkerServer(WorkerOptions(lay(tmp_path, "2026-05-25"))) as server:
        assert server.fetch("/").json() == ["python_modules", "vendor"]


@pytest.mark.parametrize("date", ["2026-05-26", "2026-07-01"])
def test_path_files_are_obeyed_from_their_date_on(tmp_path: Path, date: str) -> None:
    with WorkerServer(WorkerOptions(lay(tmp_path, date))) as server:
        assert server.fetch("/").json() == ["python_modules", "vendor", "by a path file"]
