"""Shapes of `migrations` and `exports`, and what the two mean together with the bindings (wrangler configuration 3).

What migrations do to stored data is in `migrations` and `plan`.
"""

import json
import re
from collections.abc import Mapping

from .checks import Scope, object_or_error, optional, required, typed_list, unexpected, wrong_type
from .diagnostics import Report
from .values import MISSING, Object, get, is_object, show

STORAGES = ("sqlite", "legacy-kv")
LIVE_STATES = frozenset({"created", "expecting-transfer"})
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")

_CLASS_LISTS = ("new_classes", "new_sqlite_classes", "deleted_classes")
_MOVES = {"renamed_classes": ("from", "to"), "transferred_classes": ("from", "from_script", "to")}

STATES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "created": (("storage",), ("container",)),
    "deleted": ((), ()),
    "renamed": (("renamed_to",), ()),
    "transferred": (("transferred_to",), ()),
    "expecting-transfer": (("storage", "transfer_from"), ("container",)),
}
"""For each state of an exported class the keys that are required, and those that may be there beside them."""


def check_migrations(scope: Scope, key: str, value: object) -> None:
    """`migrations`: shapes only."""
    if value is MISSING or value is None:
        return
    if not isinstance(value, list):
        wrong_type(scope.report, key, value, "list")
        return
    for index, step in enumerate(value):
        path = f"{key}[{index}]"
        if not is_object(step):
            wrong_type(scope.report, path, step, "object")
            continue
        unexpected(scope.report, key, step, {"tag", *_CLASS_LISTS, *_MOVES})
        required(scope.report, f"{path}.tag", step.get("tag", MISSING), "text")
        for name in _CLASS_LISTS:
            typed_list(scope.report, f"{path}.{name}", step.get(name, MISSING))
        for name, texts in _MOVES.items():
            moves = step.get(name, MISSING)
            if moves is not MISSING and not _are_moves(moves, texts):
                shape = ", ".join(f'"{text}"' for text in texts)
                message = f'"{path}.{name}" must be a list of objects with the texts {shape}, but is {show(moves)}.'
                scope.report.error("wrong-shape", f"{path}.{name}", message)


def _are_moves(value: object, texts: tuple[str, ...]) -> bool:
    return isinstance(value, list) and all(
        is_object(move) and all(isinstance(move.get(text), str) for text in texts) for move in value
    )


def check_exports(scope: Scope, key: str, value: object) -> None:
    """`exports`: classes and entry points by name; per state some keys are required and all others forbidden."""
    if value is MISSING or value is None:
        return
    section = object_or_error(scope, key, value)
    for name, entry in (section or {}).items():
        path = f"{key}.{name}"
        if not is_object(entry):
            wrong_type(scope.report, path, entry, "object")
        elif entry.get("type") == "durable-object":
            _check_class(scope.report, path, name, entry)
        elif entry.get("type") == "worker":
            unexpected(scope.report, path, entry, {"type", "cache"})
            cache = object_or_error(scope, f"{path}.cache", entry.get("cache", MISSING))
            if cache is not None:
                required(scope.report, f"{path}.cache.enabled", cache.get("enabled", MISSING), "boolean")
                unexpected(scope.report, f"{path}.cache", cache, {"enabled"})
        else:
            kind = entry.get("type", MISSING)
            message = f'"{path}.type" must be "durable-object" or "worker", but is {show(kind)}.'
            scope.report.error("required" if kind is MISSING else "not-one-of", f"{path}.type", message)


def _check_class(report: Report, path: str, name: str, entry: Object) -> None:
    if not name:
        report.error("required", path, '"exports" has an entry without a class name.')
    state = entry.get("state", "created")
    if not isinstance(state, str) or state not in STATES:
        names = ", ".join(f'"{known}"' for known in STATES)
        report.error("not-one-of", f"{path}.state", f'"{path}.state" must be one of {names}, but is {show(state)}.')
        return
    needed, allowed = STATES[state]
    for key in needed:
        value = entry.get(key, MISSING)
        if key == "storage" and value not in STORAGES:
            message = (
                f'"{path}.storage" is required in the state "{state}": "sqlite" or "legacy-kv", not {show(value)}.'
            )
            report.error("required", f"{path}.storage", message)
        elif not isinstance(value, str) or not value:
            message = f'"{path}.{key}" is required in the state "{state}": a text that is not empty.'
            report.error("required", f"{path}.{key}", message)
    _check_rename(report, f"{path}.renamed_to", name, entry)
    if "container" in allowed:
        optional(report, f"{path}.container", entry.get("container", MISSING), "text")
    forbidden = [key for key in entry if key not in {"type", "state", *needed, *allowed}]
    for key in forbidden:
        message = f'"{path}.{key}" is not allowed in the state "{state}".'
        report.error("forbidden-field", f"{path}.{key}", message)


def _check_rename(report: Report, path: str, name: str, entry: Object) -> None:
    target = entry.get("renamed_to")
    if entry.get("state") != "renamed" or not isinstance(target, str) or not target:
        return
    if _IDENTIFIER.fullmatch(target) is None:
        report.error("bad-class-name", path, f'"{path}" must be the name of a class, but is {show(target)}.')
    if target == name:
        report.error("rename-to-itself", path, f'"{path}" is the class\'s own name.')


def declared_classes(document: Object) -> dict[str, Object]:
    """The entries of `exports` that are Durable Object classes, in whatever state."""
    exports = document.get("exports")
    if not is_object(exports):
        return {}
    return {
        name: entry for name, entry in exports.items() if is_object(entry) and entry.get("type") == "durable-object"
    }


def is_live(entry: Object) -> bool:
    """Whether an `exports` entry is a class that exists, and no tombstone of one that is gone."""
    return entry.get("state", "created") in LIVE_STATES


def warn_uncovered(scope: Scope, document: Object) -> None:
    """A class of this Worker that is bound, but that neither a migration list nor a live export covers: a warning."""
    entries = get(document, "durable_objects", "bindings")
    own = [e for e in entries if is_object(e) and not e.get("script_name")] if isinstance(entries, list) else []
    exported = declared_classes(document)
    names = [entry.get("class_name") for entry in own]
    bare = [name for name in names if not (isinstance(name, str) and name in exported and is_live(exported[name]))]
    texts = list(dict.fromkeys(name for name in bare if isinstance(name, str)))
    if not bare or document.get("migrations") or len([n for n in bare if isinstance(n, str)]) != len(bare):
        return
    scope.report.warn(
        "durable-object-without-lifecycle",
        None,
        f"The class {', '.join(texts)} is bound, but neither declared in `exports` nor created by a migration, so it "
        f"has the legacy key-value storage only. Add:\n{_snippet(texts, toml=scope.toml)}",
    )


def _snippet(classes: list[str], *, toml: bool) -> str:
    if toml:
        return "\n".join(f'[exports.{name}]\ntype = "durable-object"\nstorage = "sqlite"' for name in classes)
    exports = {name: {"type": "durable-object", "storage": "sqlite"} for name in classes}
    return json.dumps({"exports": exports}, indent=2)[2:-2]


def refuse_both(scope: Scope, document: Object) -> None:
    """`migrations` and classes in `exports` exclude each other."""
    if document.get("migrations") and declared_classes(document):
        scope.report.error(
            "mutually-exclusive",
            "migrations,exports",
            'the life of classes is declared either by "migrations" or by "exports", not by both.',
        )
