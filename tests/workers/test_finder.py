"""The import finder."""

import subprocess
import sys
from pathlib import Path

import pytest


def run(code: str, *paths: Path) -> str:
    """Runs `code` in a fresh interpreter: the finder changes the whole process."""
    inserts = "".join(f"sys.path.insert(0, {str(path)!r})\n" for path in paths)
    program = f"import sys\n{inserts}from moorage.wrangler_compat.workers import finder\n{code}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_gives_our_module() -> None:
    code = """
finder.install()
import importlib.util
for name, inner in finder.NAMES.items():
    module = importlib.import_module(name)
    assert module.__name__ == "moorage.wrangler_compat.workers" + inner, (name, module)
    assert module.__spec__.name == module.__name__
    assert module is importlib.import_module(module.__name__)
import workers, js, asgi, pyodide.ffi, cloudflare.workers
from workers import Response, WorkerEntrypoint, asgi as inner, wsgi
from workers.workflows import NonRetryableError
from moorage.wrangler_compat.workers import Response as ours
assert Response is ours and inner is asgi and cloudflare.workers is workers
print("good")
"""
    assert run(code) == "good"


def test_ours_win_over_an_installed_sdk(tmp_path: Path) -> None:
    for name in ("workers", "asgi", "js", "pyodide"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the installed one')")
    code = """
import types
sys.modules["workers"] = types.ModuleType("workers")
sys.modules["workers.old"] = types.ModuleType("workers.old")
finder.install()
import workers, asgi, js, pyodide
assert "workers.old" not in sys.modules
print(workers.__name__)
"""
    assert run(code, tmp_path) == "moorage.wrangler_compat.workers"


def test_a_worker_s_own_asgi_module_wins(tmp_path: Path) -> None:
    (tmp_path / "asgi.py").write_text("own = True")
    code = f"""
from pathlib import Path
finder.install(Path({str(tmp_path)!r}))
import asgi
assert asgi.own
from workers import asgi as bridge
assert bridge.fetch
print("own")
"""
    assert run(code, tmp_path) == "own"


def test_it_can_be_taken_away() -> None:
    code = """
finder.install(); finder.install()
import js
finder.uninstall()
try:
    import js
except ImportError:
    print("gone")
"""
    assert run(code) == "gone"


def test_parts_of_the_sdk_that_are_not_offered_are_import_errors() -> None:
    code = """
finder.install()
for name in ("workers.htmlrewriter", "pyodide.nothing"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)
"""
    assert run(code).splitlines() == [
        "No module named 'workers.htmlrewriter'", "No module named 'pyodide.nothing'",
    ]  # fmt: skip


def test_an_installed_cloudflare_package_stays(tmp_path: Path) -> None:
    package = tmp_path / "cloudflare"
    package.mkdir()
    (package / "__init__.py").write_text("client = True")
    code = """
finder.install()
import cloudflare
from cloudflare.workers import Response
print(cloudflare.client)
"""
    assert run(code, tmp_path) == "True"


@pytest.mark.parametrize("name", ["js", "pyodide", "asgi"])
def test_without_the_finder_nothing_is_taken(name: str, tmp_path: Path) -> None:
    # In a process of its own: in this one a host may have installed the finder.
    code = f"""
import importlib.util
print("moorage" in str(importlib.util.find_spec({name!r})))
"""
    assert run(code, tmp_path) == "False"
