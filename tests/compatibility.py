"""Makes `docs/compatibility.md`: features of the Python Workers API, whether they work, and which test shows it.

    python -m tests.compatibility            # writes the file
    python -m tests.compatibility --run      # runs every test that it names, and fails unless each one passes

A row names its tests: `suite:<module>/<check>` of `tests/examples/suite_bindings`, `case:<area>/<name>` of the
recorded observations, or `<file>::<function>`. A row whose test does not exist, or is skipped by a marker, is an
error; so is a check of the suite that no row names.
"""

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

from .compatibility_rows import SECTIONS, Row

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
SUITE = ROOT / "tests" / "examples" / "suite_bindings" / "src"
SUITE_MODULES = ("objects", "storage", "sql", "buckets", "web", "javascript")
OBSERVATIONS = ROOT / "tests" / "vectors" / "do"

HEAD = """# Compatibility with Python Workers

Which features of the platform's Python API run here, each with the test that shows it. This page is made by
`python -m tests.compatibility` from the tests; a test holds it to what the script makes. What differs is in the last
column, and in full in [what a Worker imports](workers-module.md), [Durable Objects](runtime.md) and [R2](r2.md). The
platform's limits of memory, CPU time and start-up are not enforced.

"""


class Broken(Exception):
    """A row names a test that is not there, or that is not run."""


@lru_cache
def functions(path: Path) -> dict[str, list[str]]:
    """The test functions of a file, with the names of their decorators."""
    return {
        node.name: [ast.unparse(decorator) for decorator in node.decorator_list]
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def suite_checks() -> list[str]:
    """`module/check` of every check of the suite."""
    found = []
    for module in SUITE_MODULES:
        for node in ast.parse((SUITE / f"{module}.py").read_text(encoding="utf-8")).body:
            names = [node.name] if isinstance(node, ast.AsyncFunctionDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            found += [f"{module}/{name}" for name in names if name.startswith("check_")]
    return found


@lru_cache
def observations(area: str) -> frozenset[str]:
    """The names of the recorded cases of an area."""
    cases = json.loads((OBSERVATIONS / f"{area}.json").read_text(encoding="utf-8"))["cases"]
    return frozenset(case["name"] for case in cases)


def node_ids(test: str) -> list[str]:
    """The pytest ids of a row's test. Raises Broken when there is none, or when it is marked to be skipped."""
    kind, colon, name = test.partition(":")
    if kind == "suite" and colon:
        if name not in suite_checks():
            raise Broken(f"there is no check {name}")
        return [f"tests/examples/test_suite.py::test_check[{store}-{name}]" for store in ("memory", "file")]
    if kind == "case" and colon:
        area, _, case = name.partition("/")
        if case not in observations(area):
            raise Broken(f"there is no recorded case {name}")
        return [f"tests/contract/test_do.py::test_observation[{name}]"]
    path, _, function = test.partition("::")
    decorators = functions(ROOT / path).get(function) if (ROOT / path).is_file() else None
    if decorators is None:
        raise Broken(f"there is no test {test}")
    if any("skip" in decorator or "xfail" in decorator for decorator in decorators):
        raise Broken(f"{test} is not run")
    return [test]


def rows() -> Iterator[Row]:
    """Every row."""
    for section in SECTIONS:
        yield from section.rows


def problems() -> list[str]:
    """What is wrong with the rows: tests that are not there, and checks of the suite that no row names."""
    wrong = []
    named: set[str] = set()
    for row in rows():
        if not row.tests:
            wrong.append(f"{row.feature}: no test is named")
        for test in row.tests:
            named.add(test)
            try:
                node_ids(test)
            except Broken as error:
                wrong.append(f"{row.feature}: {error}")
    wrong += [f"no row names suite:{check}" for check in suite_checks() if f"suite:{check}" not in named]
    return wrong


def shown(test: str) -> str:
    """The test as the page shows it, linked to its file."""
    kind, colon, name = test.partition(":")
    if kind == "suite" and colon:
        module, _, check = name.partition("/")
        return f"[{module}: {check.removeprefix('check_')}](../tests/examples/suite_bindings/src/{module}.py)"
    if kind == "case" and colon:
        return f"[{name.partition('/')[2]}](../tests/contract/test_do.py)"
    path, _, function = test.partition("::")
    return f"[{function.removeprefix('test_')}](../{path})"


def page() -> str:
    """The page's text. Raises Broken when a row is not true to the tests."""
    if wrong := problems():
        raise Broken("\n".join(wrong))
    counted = {word: sum(row.works == word for row in rows()) for word in ("yes", "partly", "no")}
    lines = [HEAD + f"{counted['yes']} work, {counted['partly']} in part, {counted['no']} do not.\n"]
    for section in SECTIONS:
        lines += [
            f"\n## {section.title}\n\n",
            "| feature | works | test | what differs |\n",
            "| --- | --- | --- | --- |\n",
        ]
        for row in section.rows:
            tests = "<br>".join(shown(test) for test in row.tests)
            lines.append(f"| {_cell(row.feature)} | {row.works} | {tests} | {_cell(row.note)} |\n")
    return "".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def run(tests: Iterable[str], excused: Collection[str] = ()) -> list[str]:
    """Runs tests by their ids in a process of their own; returns those that did not pass, with their outcome.

    One of `excused` may be skipped: its row says what differs.
    """
    wanted = sorted(set(tests))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", f"--junit-xml={report}", *wanted]
        subprocess.run(command, cwd=ROOT, check=False)
        outcomes = {}
        for case in ElementTree.parse(report).iter("testcase"):
            place = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            outcomes[place] = next(
                (child.tag for child in case if child.tag in {"failure", "error", "skipped"}), "passed"
            )
    wrong = []
    for test in wanted:
        found = [outcome for name, outcome in outcomes.items() if name == test or name.startswith(f"{test}[")]
        good = {"passed", "skipped"} if test in excused else {"passed"}
        if good.isdisjoint(found) or not {"failure", "error"}.isdisjoint(found):
            wrong.append(f"{test}: {', '.join(sorted(set(found))) or 'not run'}")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility", description=__doc__)
    parser.add_argument("--run", action="store_true", help="run every test that is named; do not write")
    options = parser.parse_args(arguments)
    try:
        text = page()
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    if options.run:
        excused = {
            identity for row in rows() if row.works == "partly" for test in row.tests for identity in node_ids(test)
        }
        wrong = run((identity for row in rows() for test in row.tests for identity in node_ids(test)), excused)
        print("\n".join(wrong) or "every test that is named passes")
        return 1 if wrong else 0
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
