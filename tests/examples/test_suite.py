"""A suite that runs inside a Worker, check by check: what user code may write for objects, storage, SQL and R2."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.wrangler_compat.host.testing import WorkerOptions, WorkerServer

SUITE = Path(__file__).parent / "suite_bindings"
MODULES = ("objects", "storage", "sql", "buckets", "web", "javascript")


def checks() -> list[str]:
    """`module/check` of every function or name that begins with `check_`."""
    found = []
    for module in MODULES:
        for node in ast.parse((SUITE / "src" / f"{module}.py").read_text()).body:
            names = [node.name] if isinstance(node, ast.AsyncFunctionDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            found += [f"{module}/{name}" for name in names if name.startswith("check_")]
    return found


@pytest.fixture(scope="module", params=["memory", "file"])
def suite(request: pytest.FixtureRequest) -> Iterator[WorkerServer]:
    with WorkerServer(WorkerOptions(SUITE, r2=request.param)) as server:
        yield server


@pytest.mark.parametrize("check", checks())
def test_check(suite: WorkerServer, check: str) -> None:
    answer = suite.fetch(f"/{check}")
    assert answer.status_code == 200, answer.text
