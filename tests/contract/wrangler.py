"""Replays `wrangler/*.json`: configuration files, migrations, variables and object ids.

What is compared: errors and warnings as sets of (code, path), the listed keys of the finished configuration, live
classes or the refusal, variables with kind and value, ids. A path is left open where the case names none. Paths are
compared below the chosen environment: in the platform's messages some carry `env.<name>.` and some do not. Codes are
names of the recording's own making: where a case uses one that no case had before, and ours is such a one too, the
path alone decides.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from moorage.durable_objects.runtime.ids import IdFactory
from moorage.wrangler_compat.config import (
    Diagnostic,
    MigrationRefused,
    SyntaxProblem,
    live_classes,
    load,
    parse_config,
    resolve_variables,
    steps_of,
    validate,
)

from .result import CaseResult, refuse_unknown

FAMILY = "wrangler"
REFUSALS = ("python-flag-missing",)
"""Errors for which the platform stops at once instead of showing all that it found."""

CODES = frozenset({
    "bad-bucket-name", "bad-date", "bad-date-dash", "bad-name", "bindings-not-unique", "duplicate-binding",
    "durable-object-without-lifecycle", "empty-ignored", "env-lacks-binding", "env-lacks-vars",
    "mutually-exclusive", "not-inherited", "one-of-required", "out-of-range", "removed-field", "rename-to-itself",
    "required", "required-with", "toml-date", "unexpected-field", "unknown-environment", "wrong-shape",
    "wrong-type",
})  # fmt: skip
"""The codes that recorded cases have given a name to."""

Case = dict[str, Any]


def run(folder: Path, areas: list[str]) -> Iterator[CaseResult]:
    """Replays the files of `folder` (a folder like `vectors/wrangler`), or those whose name without ending is in
    `areas`.

    The cases of a file that is none of the four kinds are skipped.
    """
    for path in sorted(folder.glob("*.json")):
        if areas and path.stem not in areas:
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        replay = REPLAYERS.get(path.stem)
        if replay is None:
            for index, case in enumerate(document.get("cases", [])):
                name = str(case.get("name", index))
                yield CaseResult(FAMILY, path.stem, name, "skipped", "no replayer for this file")
            continue
        for name, case, check in replay(document):
            try:
                difference = check(case)
            except Exception as error:  # a crash is a failed case like any other; the run goes on
                difference = f"{type(error).__name__}: {error}"
            yield CaseResult(FAMILY, path.stem, name, "failed" if difference else "passed", difference)


Checks = Iterator[tuple[str, Case, Callable[[Case], str]]]


def _config_cases(document: Case) -> Checks:
    for case in document["cases"]:
        yield case["name"], case, check_config


def check_config(case: Case) -> str:
    """The difference of one configuration case, empty if there is none."""
    for entry in (*case.get("errors", ()), *case.get("warnings", ())):
        refuse_unknown(entry, ("code", "path"), "entry")
    refuse_unknown(case.get("refused", {}), ("code",), "refused")
    wanted = case.get("refused", {}).get("code")
    try:
        parsed = parse_config(case["text"], case["file"])
    except SyntaxProblem as problem:
        return "" if wanted == "syntax-error" else f"not parsed: {problem}"
    toml = case["file"].endswith(".toml")
    checked = validate(parsed.value, heading=case["file"], environment=case["env"], toml=toml)
    errors, warnings = checked.report.all_errors, checked.report.all_warnings
    refused = next((error.code for error in errors if error.code in REFUSALS), None)
    if refused or wanted:
        return "" if refused == wanted else f"refused with {refused}, not {wanted}"
    differences = [
        _compare("errors", errors, case["errors"], case["env"]),
        _compare("warnings", warnings, case["warnings"], case["env"]),
    ]
    for key, value in case.get("config", {}).items():
        if key not in checked.document:
            differences.append(f"{key} is absent")
        elif not same(checked.document[key], value):
            differences.append(f"{key} is {checked.document[key]!r}, not {value!r}")
    return "; ".join(filter(None, differences))


def same(left: object, right: object) -> bool:
    """Equality of JSON values: `true` is not 1, unlike in Python, but 1.0 is."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def _compare(what: str, found: list[Diagnostic], wanted: list[Case], environment: str | None) -> str:
    def plain(path: str | None) -> str:
        text = (path or "").replace(".[", "[")
        return text.removeprefix(f"env.{environment}.") if environment else text

    def agrees(entry: Case, code: str, path: str) -> bool:
        if "path" in entry and plain(entry["path"]) != path:
            return False
        return entry["code"] == code or ("path" in entry and entry["code"] not in CODES and code not in CODES)

    remaining = Counter((entry.code, plain(entry.path)) for entry in found)
    missing = []
    # entries with a path first, so that an open one does not take what another needs
    for entry in sorted(wanted, key=lambda entry: "path" not in entry):
        fitting = [key for key, count in remaining.items() if count and agrees(entry, *key)]
        if fitting:
            remaining[fitting[0]] -= 1
        else:
            missing.append(entry)
    extra = [key for key, count in remaining.items() for _ in range(count)]
    return f"{what}: missing {missing}, unexpected {extra}" if missing or extra else ""


def _migration_cases(document: Case) -> Checks:
    for case in document["cases"]:
        yield case["name"], case, check_migrations


def check_migrations(case: Case) -> str:
    """The difference of one migration case."""
    try:
        classes = live_classes(steps_of(case["migrations"]))
    except MigrationRefused as refused:
        found = {"code": refused.code, "step": refused.step, "class": refused.class_name}
        return "" if found == case.get("refused") else f"refused: {found}"
    if "refused" in case:
        return f"not refused, but {classes}"
    return "" if classes == case["classes"] else f"classes {classes}, not {case['classes']}"


def _variable_cases(document: Case) -> Checks:
    for case in document["cases"]:
        yield case["name"], case, check_variables


def check_variables(case: Case) -> str:
    """The difference of one case of variables: files in a fresh folder, an empty process environment."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw: Case = {"name": "w", "vars": case["config_vars"]}
        if case["secrets"] is not None:
            raw["secrets"] = case["secrets"]
        if case["env"] is not None:
            # variables are not inherited
            raw = {"name": "w", "env": {case["env"]: raw}}
        (folder / "wrangler.json").write_text(json.dumps(raw), encoding="utf-8")
        for file, text in case["files"].items():
            (folder / file).write_text(text, encoding="utf-8")
        # names that are both a variable and a required secret are an error of the check, and no case of this file
        config = load(folder, environment=case["env"], environ={}).require()
        variables = resolve_variables(config, {}, mode="dev").values
    found = {name: {"type": variable.kind, "value": variable.value} for name, variable in variables.items()}
    return "" if same(found, case["expect"]) else f"{found}, not {case['expect']}"


def _id_cases(document: Case) -> Checks:
    for index, case in enumerate(document["measured"]):
        yield f"measured[{index}]", case, check_named_id
    for index, case in enumerate(document["measured_unique_ids"]):
        yield f"unique[{index}]", case, check_unique_id
    for index, case in enumerate(document["from_string"]):
        yield f"from_string[{index}]", case, check_id_text


def _factory(case: Case) -> IdFactory:
    return IdFactory(case["unique_key"], lambda count: bytes(count))


def check_named_id(case: Case) -> str:
    """The difference of an id by name."""
    found = str(_factory(case).from_name(case["name"]))
    return "" if found == case["id"] else f"{found}, not {case['id']}"


def check_unique_id(case: Case) -> str:
    """A random id of the real runtime must be one of the namespace, and its second half must be ours."""
    base = bytes.fromhex(case["id"][:32])
    made = str(IdFactory(case["unique_key"], lambda count: base[:count]).unique())
    return "" if made == case["id"] else f"{made}, not {case['id']}"


def check_id_text(case: Case) -> str:
    """The difference of an id from text."""
    try:
        found = str(_factory(case).from_string(case["text"]))
    except TypeError as error:
        why = "not-64-hex" if "64 hex" in str(error) else "other-namespace"
        return "" if why == case.get("refused") else f"refused with {why}: {error}"
    return "" if found == case.get("accepted") else f"{found}, not {case.get('accepted', 'refused')}"


REPLAYERS: dict[str, Callable[[Case], Checks]] = {
    "config-cases": _config_cases,
    "migration-cases": _migration_cases,
    "dev-vars-cases": _variable_cases,
    "do-id-cases": _id_cases,
}
