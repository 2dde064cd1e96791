"""Plays the recorded command sequences of the job queue.

A placeholder (`<job:1>`) is bound to the value that stands in its place and is that value from then on; two
placeholders of a kind never share one. Where a sequence diverges from what upstream did, `expect` is what must hold.
"""

import json
import re
from pathlib import Path
from typing import Any

from .jobs_world import Done, World
from .result import refuse_unknown

PLACEHOLDER = re.compile(r"<(job|exec|run|nonce|hash|content|body|finding):(\d+)>")
WORDING = "<wording>"
LEFT_OUT = ("elapsedMs", "reportPath")
EXPECTATIONS = (
    "exit", "stdout_json", "stdout_ndjson", "stdout_text", "stdout_empty", "content_in_order", "content_lacks",
    "sorted_exits", "handovers", "exit_from_job_checks", "db", "db_unchanged",
)  # fmt: skip
KEYS = {
    "jobs": ("id",),
    "contents": ("contentHash",),
    "executions": ("id",),
    "summaries": ("nodeId", "summarizerActionId"),
    "findings": ("id",),
}


class Mismatch(AssertionError):
    """What differed."""


class Bindings:
    """What the placeholders stand for so far."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self.known = dict(known or {})

    def copy(self) -> "Bindings":
        return Bindings(self.known)

    def bind(self, name: str, value: Any) -> bool:
        if name in self.known:
            return bool(self.known[name] == value)
        kind = name.split(":", maxsplit=1)[0]
        if any(other.split(":")[0] == kind and held == value for other, held in self.known.items()):
            return False
        self.known[name] = value
        return True

    def fill(self, text: str) -> str:
        """`text` with the values of its placeholders."""
        return PLACEHOLDER.sub(lambda match: str(self.known.get(match[0], match[0])), text)

    def fill_stdin(self, text: str) -> str:
        """As `fill`; a finding's placeholder stands for its number, quotes included."""
        text = re.sub(r'"(<finding:\d+>)"', lambda match: str(self.known.get(match[1], match[0])), text)
        return self.fill(text)

    def unify(self, expected: Any, actual: Any, where: str) -> None:
        """Binds what is unbound. Raises Mismatch."""
        if isinstance(expected, str):
            if expected == WORDING:
                if not isinstance(actual, str) or not actual:
                    raise Mismatch(f"{where}: free wording expected, got {actual!r}")
                return
            if PLACEHOLDER.fullmatch(expected):
                if not self.bind(expected, actual):
                    raise Mismatch(f"{where}: {expected} is {self.known.get(expected)!r}, got {actual!r}")
                return
        if isinstance(expected, dict) and set(expected) == {"json"} and isinstance(actual, str):
            # a column that holds JSON: compared as the value
            self.unify(expected["json"], json.loads(actual), where)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            actual = {key: value for key, value in actual.items() if key not in LEFT_OUT or key in expected}
            if set(expected) != set(actual):
                raise Mismatch(f"{where}: keys {sorted(set(expected) ^ set(actual))} differ")
            for key, value in expected.items():
                self.unify(value, actual[key], f"{where}.{key}")
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                raise Mismatch(f"{where}: {len(expected)} entries expected, got {len(actual)}")
            for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
                self.unify(one, other, f"{where}[{index}]")
        elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
            raise Mismatch(f"{where}: expected {expected!r}, got {actual!r}")

    def unify_any_order(self, expected: list[Any], actual: list[Any], where: str) -> None:
        """As `unify` for lists whose order says nothing."""
        if len(expected) != len(actual):
            raise Mismatch(f"{where}: {len(expected)} rows expected, got {len(actual)}: {actual}")
        if not expected:
            return
        trouble: Mismatch | None = None
        for index, candidate in enumerate(actual):
            attempt = self.copy()
            try:
                attempt.unify(expected[0], candidate, f"{where}[{index}]")
                attempt.unify_any_order(expected[1:], actual[:index] + actual[index + 1 :], where)
            except Mismatch as error:
                trouble = trouble or error
                continue
            self.known = attempt.known
            return
        raise trouble or Mismatch(where)


def check_tables(bindings: Bindings, expected: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    """What changed in the tables against `db` of a step."""
    refuse_unknown(expected, KEYS, "db")
    for table, keys in KEYS.items():
        wanted = expected.get(table, {})
        refuse_unknown(wanted, ("added", "changed", "removed"), f"db.{table}")
        added = [row for key, row in after[table].items() if key not in before[table]]
        removed = [key for key in before[table] if key not in after[table]]
        changed = []
        for key, row in after[table].items():
            old = before[table].get(key)
            if old is not None and old != row:
                parts = {name: row[name] for name in keys}
                changed.append({**parts, **{name: value for name, value in row.items() if old[name] != value}})
        for name, rows in (("added", added), ("changed", changed)):
            # what a content is, is compared where it is handed out
            shaped = [{key: value for key, value in row.items() if key != "content"} for row in rows]
            bindings.unify_any_order(wanted.get(name, []), shaped, f"{table}.{name}")
        flat = [key[0] if len(keys) == 1 else list(key) for key in removed]
        bindings.unify_any_order(wanted.get("removed", []), flat, f"{table}.removed")


def check_stdout(bindings: Bindings, expect: dict[str, Any], argv: list[str], done: Done) -> None:
    """Standard output against a step; what is not listed is not compared."""
    if "stdout_empty" in expect and (done.stdout == "") != expect["stdout_empty"]:
        raise Mismatch(f"stdout: empty is {expect['stdout_empty']}, got {done.stdout[:200]!r}")
    if "stdout_text" in expect:
        bindings.unify(expect["stdout_text"], done.stdout.removesuffix("\n"), "stdout")
    if "stdout_ndjson" in expect:
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        bindings.unify(expect["stdout_ndjson"], lines, "stdout")
    if "stdout_json" in expect:
        actual = json.loads(done.stdout)
        if argv[0] == "doctor":
            actual = {
                "kind": actual["kind"],
                "jobChecks": [{"id": check["id"], "status": check["status"]} for check in actual["jobChecks"]],
            }
        if argv[:2] == ["jobs", "list"]:
            order = sorted(actual, key=lambda job: (job["createdAt"], job["id"]), reverse=True)
            if actual != order:
                raise Mismatch("stdout: the list is not newest first")
            # ids are random, so the order within one creation time is not that of the recording
            bindings.unify_any_order(expect["stdout_json"], actual, "stdout")
        else:
            bindings.unify(expect["stdout_json"], actual, "stdout")
        check_content(bindings, expect, actual)


def check_content(bindings: Bindings, expect: dict[str, Any], actual: Any) -> None:
    """The texts that a handed-out content has in order, and those that it lacks."""
    if "content_in_order" not in expect and "content_lacks" not in expect:
        return
    content = actual["content"]
    at = 0
    for text in expect.get("content_in_order", ()):
        found = content.find(bindings.fill(text), at)
        if found < 0:
            raise Mismatch(f"content: {text!r} is not there after position {at}")
        at = found + len(bindings.fill(text))
    for text in expect.get("content_lacks", ()):
        if bindings.fill(text) in content:
            raise Mismatch(f"content: {text!r} must not be there")


def play_step(world: World, bindings: Bindings, step: dict[str, Any]) -> None:
    """One step. Raises Mismatch."""
    if "setup" in step:
        world.set_up({key: bindings.fill(value) if isinstance(value, str) else value for key, value in step.items()})
        return
    expect = step["expect"]
    refuse_unknown(expect, EXPECTATIONS, "expect")
    argv = [bindings.fill(part) for part in step["argv"]]
    stdin = None if step.get("stdin") is None else bindings.fill_stdin(step["stdin"])
    if "now" in step:
        world.now, world.waited = step["now"], 0.0
    before = world.tables()
    if "parallel" in step:
        runs = world.run_parallel(argv, stdin, step["parallel"])
        exits = sorted(run.exit for run in runs)
        bindings.unify(expect["sorted_exits"], exits, "exits")
        handed = [json.loads(run.stdout)["id"] for run in runs if run.stdout.startswith("{")]
        if "handovers" in expect and (len(handed) != expect["handovers"] or len(set(handed)) != len(handed)):
            raise Mismatch(f"handovers: expected {expect['handovers']}, got {handed}")
        return
    done = world.run(argv, stdin)
    status = expect.get("exit", expect.get("exit_from_job_checks"))
    if status is not None and done.exit != status:
        raise Mismatch(f"exit: expected {status}, got {done.exit}; stderr {done.stderr[:300]!r}")
    if done.exit in (2, 3, 4, 5) and argv[0] != "doctor" and not done.stderr:
        raise Mismatch("stderr: a refusal gives its reason")
    check_stdout(bindings, expect, argv, done)
    after = world.tables()
    if "db_unchanged" in expect and (before == after) != expect["db_unchanged"]:
        raise Mismatch(f"db: unchanged is not {expect['db_unchanged']}")
    if "db" in expect:
        check_tables(bindings, expect["db"], before, after)


def play(sequence: dict[str, Any], fixture: dict[str, Any], root: Path, world: World | None = None) -> None:
    """Runs a whole sequence in the fresh folder `root`, or in a fresh `world`. Raises Mismatch naming the step."""
    world, bindings = world or World(root, fixture), Bindings()
    for number, step in enumerate(sequence["steps"], 1):
        try:
            play_step(world, bindings, step)
        except AssertionError as error:
            words = step.get("setup") or " ".join(step.get("argv", ()))
            raise Mismatch(f"step {number} ({words}): {error}") from error
