"""`pyodide.code`: running Python text; JavaScript text cannot be run here."""

from __future__ import annotations

import ast
import inspect
from typing import Any


def run_js(code: str) -> Any:
    raise NotImplementedError("pyodide.code.run_js: Moorage does not run JavaScript")


def eval_code(source: str, globals: dict[str, Any] | None = None, locals: dict[str, Any] | None = None) -> Any:
    """Runs `source` and returns the value of its last expression, None when it ends with a statement."""
    scope = {} if globals is None else globals
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, "<exec>", "exec"), scope, locals)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<exec>", "eval"), scope, locals)


def find_imports(source: str) -> list[str]:
    """Top-level names of the packages that `source` imports, sorted."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return sorted(names)


def should_quiet(source: str) -> bool:
    """Whether the last line ends with a semicolon."""
    return inspect.cleandoc(source).rstrip().endswith(";")


__all__ = ["eval_code", "find_imports", "run_js", "should_quiet"]
