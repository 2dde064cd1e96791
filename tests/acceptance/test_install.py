"""A wheel built from the sdist, in an empty environment and an empty folder: it serves both kinds of Worker."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.support.serving import free_port

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
from workers import DurableObject, Response, WorkerEntrypoint

class Counter(DurableObject):
    async def increment(self):
        count = (await self.ctx.storage.get("count") or 0) + 1
        await self.ctx.storage.put("count", count)
        return count

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response(str(await self.env.COUNTERS.getByName("a").increment()))
"""
WRANGLER = """
name = "stranger"
main = "worker.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[[durable_objects.bindings]]
name = "COUNTERS"
class_name = "Counter"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the sdist from a copy of what is tracked, and the wheel from the sdist."""
    folder = tmp_path_factory.mktemp("build")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    source = folder / "source"
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("tests/"):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, "--sdist", str(source)], check=True, capture_output=True)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    unpacked = next((folder / "unpacked").iterdir())
    subprocess.run([*build, "--wheel", str(unpacked)], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def moorage(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment with the wheel; dependencies are lent by path: nothing is fetched."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()
    )  # fmt: skip
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
            str(site),
            str(wheel),
        ],
        check=True,
    )
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    script = folder / "bin" / "moorage"
    script.write_text(f"#!{python}\nfrom moorage.clients.cli import main\nmain()\n")
    script.chmod(0o755)
    return script


def answers(command: list[str], folder: Path, path: str) -> str:
    port = free_port()
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "CLAWSWEEPER"))}
    process = subprocess.Popen(
        [*command, "--port", str(port)], cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        for _ in range(1500):
            assert process.poll() is None, process.communicate()[0].decode()
            try:
                return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=10).text
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError("no answer")
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_the_wheel_has_one_top_level_name_and_its_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"moorage"}
    assert "moorage/worker/bundle/wrangler.toml" in names
    assert "moorage/durable_objects/py.typed" in names
    assert not [name for name in names if "tests" in name]


def test_the_state_plane_is_served_from_an_empty_folder(moorage: Path, tmp_path: Path) -> None:
    answer = answers([str(moorage), "serve", "--init-secrets"], tmp_path, "/api/health")
    assert '"ok": true' in answer
    secrets = tmp_path / ".dev.vars"
    assert "CLAWSWEEPER_WEBHOOK_SECRET=" in secrets.read_text()
    assert secrets.stat().st_mode & 0o777 == 0o600


def test_a_strangers_worker_is_served(moorage: Path, tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "worker.py").write_text(WORKER)
    assert answers([str(moorage), "serve"], tmp_path, "/") == "1"
    assert answers([str(moorage), "dev", str(tmp_path)], tmp_path, "/") == "2"


def test_another_asgi_server_can_serve_it(tmp_path: Path) -> None:
    """granian, over the exported application factory."""
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "app_for_granian.py").write_text(
        "from pathlib import Path\n"
        "from moorage.wrangler_compat.host.application import create_app\n"
        "def make():\n"
        f"    return create_app(Path({str(tmp_path)!r}))\n"
    )
    command = [
        sys.executable, "-m", "granian", "--interface", "asgi", "--factory", "--host", "127.0.0.1", "--workers", "1",
        "app_for_granian:make",
    ]  # fmt: skip
    assert answers(command, tmp_path, "/") == "1"
