"""Which Workers get stacks of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
from moorage.wrangler_compat.workers import finder, switching
from moorage.wrangler_compat.workers.discovery import Compatibility, discover
finder.install()
discover(importlib.import_module("entry"), Compatibility.of("2026-06-01"))
print(switching.enabled)
"""

ENTRY = "from workers import WorkerEntrypoint\nclass Default(WorkerEntrypoint): pass\n"


@pytest.mark.parametrize(
    ("files", "enabled"),
    [
        ({"entry.py": ENTRY}, False),
        ({"entry.py": ENTRY + "from pyodide.ffi import to_js\n"}, False),
        ({"entry.py": ENTRY + "from pyodide.ffi import run_sync\n"}, True),
        ({"entry.py": ENTRY, "views/inner.py": "def view():\n    from pyodide.ffi import run_sync\n"}, True),
        ({"entry.py": ENTRY, "views.py": "import anyio\nanyio.to_thread.run_sync\n"}, False),
        ({"entry.py": ENTRY, ".venv/lib/x.py": "from pyodide.ffi import run_sync\n"}, False),
        ({"entry.py": ENTRY + "import library\n", "../site/library/__init__.py": ""}, False),
        (
            {
                "entry.py": ENTRY + "import library\n",
                "../site/library/__init__.py": "",
                "../site/library/deep/later.py": "from pyodide.ffi import run_sync\n",
            },
            True,
        ),
        (
            {
                "entry.py": ENTRY + "import library\n",
                "../site/library/__init__.py": "from pyodide.ffi import to_js as run_sync\n",
                **{f"../site/library/module{number}.py": "" for number in range(100)},
            },
            False,
        ),
        (
            {"entry.py": ENTRY, "../site/unused/__init__.py": "from pyodide.ffi import run_sync\n"},
            False,
        ),
    ],
)
def test_texts_decide(tmp_path: Path, files: dict[str, str], enabled: bool) -> None:
    root, site = tmp_path / "root", tmp_path / "site"
    site.mkdir()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    program = f"import sys\nsys.path.append({str(site)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(enabled)
