"""The layout of the design: import directions, package list, name guards, file sizes, namespace purity."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("clients", "durable_objects", "protocols", "r2", "worker", "wrangler_compat")

# Who may import whom (architecture, section 1). Keys and values are layers, not folders.
MAY_IMPORT = {
    "protocols": set(),
    "runtime": {"protocols"},
    "r2": {"protocols"},
    "workers": {"protocols", "runtime", "r2"},
    "objects": {"protocols", "runtime", "r2"},
    "config": set(),
    "clients": {"protocols"},
    "worker": {"protocols", "runtime", "objects", "r2", "workers", "host"},
    "host": {"protocols", "runtime", "r2", "workers", "config"},
}
LAZY = {("clients", "r2")}

# `protocols` may import the standard modules that only compute, and msgspec.
PURE = {
    "__future__", "abc", "array", "base64", "binascii", "bisect", "codecs", "collections", "copy", "dataclasses",
    "datetime", "decimal", "difflib", "email", "enum", "fractions", "functools", "hashlib", "heapq", "hmac", "html",
    "inspect", "ipaddress", "itertools", "json", "math", "msgspec", "operator", "re", "string", "struct", "textwrap",
    "types", "typing", "unicodedata", "urllib", "zlib",
}  # fmt: skip
HEAVY = {"sqlite3", "starlette", "boto3", "aiosqlite", "uvicorn", "moto"}


def layer_of(path: Path) -> str | None:
    parts = path.relative_to(ROOT).parts
    if parts[0] in {"durable_objects", "wrangler_compat"}:
        return parts[1] if len(parts) > 2 else None
    return parts[0]


def layer_of_module(name: str) -> str | None:
    parts = name.split(".")
    if len(parts) < 2:
        return None
    if parts[1] in {"durable_objects", "wrangler_compat"}:
        return parts[2] if len(parts) > 2 else None
    return parts[1]


def sources() -> Iterator[Path]:
    for part in PARTS:
        yield from sorted((ROOT / part).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Absolute module names that `path` imports, with line and whether the import is inside a function."""
    tree = ast.parse(path.read_text(), str(path))
    package = ("moorage", *path.relative_to(ROOT).parent.parts)
    guarded: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            guarded.update(id(inner) for inner in ast.walk(node))

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            deeper = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or id(child) in guarded
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name, child.lineno, inside
            elif isinstance(child, ast.ImportFrom):
                if child.level:
                    base = package[: len(package) - child.level + 1]
                    module = ".".join((*base, *((child.module,) if child.module else ())))
                    names = [f"{module}.{alias.name}" for alias in child.names] if not child.module else [module]
                    for name in names:
                        yield name, child.lineno, inside
                else:
                    module = child.module or ""
                    # `from moorage.durable_objects import runtime` names the layer in the list
                    if module in {"moorage", "moorage.durable_objects", "moorage.wrangler_compat"}:
                        for alias in child.names:
                            yield f"{module}.{alias.name}", child.lineno, inside
                    else:
                        yield module, child.lineno, inside
            yield from visit(child, deeper)

    yield from visit(tree, False)


def test_imports_go_one_way() -> None:
    wrong = []
    for path in sources():
        layer = layer_of(path)
        if layer is None:
            continue
        for name, line, inside in imports(path):
            if not name.startswith("moorage."):
                continue
            target = layer_of_module(name)
            if target is None or target == layer or target in MAY_IMPORT[layer]:
                continue
            if inside and (layer, target) in LAZY:
                continue
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {layer} may not import {target} ({name})")
    assert wrong == []


def test_inside_a_part_imports_are_relative() -> None:
    wrong = []
    for path in sources():
        if path == ROOT / "worker" / "bundle" / "entry.py":
            continue  # a Worker's entry: its own folder is its import root
        part = path.relative_to(ROOT).parts[0]
        layer = layer_of(path)
        for name, line, _ in imports(path):
            absolute = f"moorage.{part}" in path.read_text().splitlines()[line - 1]
            if name.startswith("moorage.") and absolute and layer_of_module(name) == layer:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: import {name} relatively")
    assert wrong == []


def test_protocols_only_compute() -> None:
    wrong = []
    for path in (ROOT / "protocols").rglob("*.py"):
        for name, line, _ in imports(path):
            top = name.split(".")[0]
            if top != "moorage" and top not in PURE:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {name}")
            if top == "urllib" and name != "urllib.parse":
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert wrong == []


def test_clients_load_nothing_heavy_at_import() -> None:
    wrong = []
    for path in (ROOT / "clients").rglob("*.py"):
        for name, line, inside in imports(path):
            if not inside and name.split(".")[0] in HEAVY:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {name} must be imported where it is used")
    assert wrong == []


def test_runtime_knows_no_server() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in (ROOT / "durable_objects").rglob("*.py")
        for name, line, _ in imports(path)
        if name.split(".")[0] in {"uvicorn", "granian", "starlette", "websockets"}
    ]
    assert wrong == []


def test_listed_packages_are_those_on_disk() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    on_disk = {
        ".".join(("moorage", *init.parent.relative_to(ROOT).parts))
        for part in PARTS
        for init in (ROOT / part).rglob("__init__.py")
    }
    assert listed == on_disk


@pytest.mark.parametrize("part", PARTS)
def test_a_part_refuses_to_be_imported_by_its_folder_name(part: str) -> None:
    source = (ROOT / part / "__init__.py").read_text()
    with pytest.raises(ImportError, match=f"moorage.{part}"):
        exec(compile(source, f"{part}/__init__.py", "exec"), {"__name__": part})


def test_the_namespace_has_no_init() -> None:
    assert not (ROOT / "__init__.py").exists()
    assert not list(ROOT.glob("moorage/__init__.py"))


def test_files_stay_small() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}: {count} lines"
        for path in sources()
        if (count := len(path.read_text().splitlines())) > 800
    ]
    assert too_long == []


def test_python_is_new_enough() -> None:
    assert sys.version_info >= (3, 11)
