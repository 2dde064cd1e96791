"""A whole document, and the chosen environment of it: finished values and every error and warning at once.

Rules: wrangler configuration 2 and 3. Environments that are not chosen are not looked at.
"""

import copy
from dataclasses import dataclass

from .bindings import check_unique_names
from .checks import Scope, unexpected, wrong_type
from .deployment import finished_site, warn_inherited_domains
from .diagnostics import Report
from .keys import KEYS, REMOVED, TOP_LEVEL, Key
from .lifecycle import refuse_both, warn_uncovered
from .sections import DEV_KEYS
from .values import MISSING, Object, is_object, show

DEV_DEFAULTS: Object = {
    "ip": "localhost",
    "local_protocol": "http",
    "enable_containers": True,
    "generate_types": False,
}
PYTHON_FLAG = "python_workers"
PYTHON_RULE: Object = {"type": "PythonModule", "globs": ["**/*.py"]}

_ENVIRONMENT_KEYS = frozenset(key.name for key in KEYS)


@dataclass(frozen=True, slots=True)
class Validated:
    """`document` holds the finished values of the chosen environment and of the keys of the top level alone.

    It is complete also where `report` has errors, but then it may hold what was refused: use it for messages only.
    """

    document: Object
    report: Report


def validate(raw: object, *, heading: str, environment: str | None = None, toml: bool = False) -> Validated:
    """Checks what was parsed. `heading` names the file in the report; `toml` decides how snippets are written.

    Never raises: everything is in the report.
    """
    report = Report(heading)
    if not is_object(raw):
        wrong_type(report, "top-level", raw, "object")
        return Validated({}, report)
    raw = copy.deepcopy(raw)
    scope = Scope(report, toml=toml)
    for key, check in TOP_LEVEL.items():
        check(scope, key, raw.get(key, MISSING))
    top = _environment(scope, raw, raw)
    active = _choose(scope, raw, top, environment) if environment else top
    document = {**active, "dev": _dev(raw.get("dev"))}
    for key in TOP_LEVEL:
        if key not in {"dev", "env"} and raw.get(key) is not None:
            document[key] = raw[key]
    site = document.get("site")
    if is_object(site):
        document["site"] = finished_site(report, site, document.get("main"))
    check_unique_names(report, document)
    unexpected(report, "top-level", raw, _ENVIRONMENT_KEYS | TOP_LEVEL.keys() | REMOVED.keys())
    _apply_python(report, document)
    return Validated(document, report)


def _dev(raw: object) -> Object:
    given = raw if is_object(raw) else {}
    dev = {**DEV_DEFAULTS, **{name: value for name, value in given.items() if name in DEV_KEYS}}
    dev.setdefault("upstream_protocol", dev["local_protocol"])
    return dev


def _choose(scope: Scope, raw: Object, top: Object, name: str) -> Object:
    environments = raw.get("env")
    if environments is not None and not is_object(environments):
        wrong_type(scope.report, "env", environments, "object")
        environments = {}
    section = (environments or {}).get(name, MISSING)
    if section is MISSING:
        _unknown(scope.report, name, environments)
        base = top.get("name")
        return {**top, "name": f"{base}-{name}"} if base else top
    if not is_object(section):
        wrong_type(scope.report, f"env.{name}", section, "object")
        section = {}
    node = scope.report.child(f'"env.{name}" environment')
    inner = Scope(node, name, top, scope.toml)
    finished = _environment(inner, section, raw)
    unexpected(node, f"env.{name}", section, _ENVIRONMENT_KEYS)
    return finished


def _unknown(report: Report, name: str, environments: Object | None) -> None:
    if environments is None:
        message = f'There is no environment "{name}": the file has no environments, so the top level is used.'
        report.warn("unknown-environment", None, message)
    else:
        known = ", ".join(f'"{other}"' for other in environments) or "none"
        report.error("unknown-environment", None, f'There is no environment "{name}". Known: {known}.')


def _environment(scope: Scope, section: Object, raw: Object) -> Object:
    """The finished values of the top level (`section` is `raw`) or of a named environment."""
    _refuse_removed(scope.report, section, top=scope.top is None)
    if "unsafe" in section and (scope.top is None or "unsafe" not in raw):
        scope.report.warn(
            "experimental", "unsafe", '"unsafe" fields are experimental on the platform and may change.'
        )
    _ignore_empty(scope.report, section)
    result: Object = {}
    for key in KEYS:
        value = _value(scope, key, section, raw)
        if value is not MISSING:
            result[key.name] = value
    if section.get("routes", MISSING) is not MISSING and section.get("route", MISSING) is not MISSING:
        scope.report.error("mutually-exclusive", "route,routes", '"route" and "routes" exclude each other.')
    if scope.top is not None and "routes" not in section:
        warn_inherited_domains(scope, "routes")
    warn_uncovered(scope, result)
    refuse_both(scope, result)
    return result


def _value(scope: Scope, key: Key, section: Object, raw: Object) -> object:
    given = section.get(key.name, MISSING)
    if key.inherited or given is not MISSING:
        key.check(scope, key.name, given)
    elif scope.top is not None and key.name in raw:
        scope.report.warn(
            "not-inherited",
            key.name,
            f'"{key.name}" stands at the top level, but not in "env.{scope.environment}", and is not inherited: add '
            "it there too if it is needed.",
        )
    if given is not MISSING and given is not None:
        return given
    if key.inherited and scope.top is not None and key.name in scope.top:
        value = copy.deepcopy(scope.top[key.name])
        return f"{value}-{scope.environment}" if key.name == "name" and value else value
    return MISSING if key.default is None else key.default()


def _refuse_removed(report: Report, section: Object, *, top: bool) -> None:
    """`legacy_env` was a key of the top level alone."""
    for key, advice in REMOVED.items():
        if (top or key != "legacy_env") and section.pop(key, MISSING) is not MISSING:
            report.error("removed-field", key, f'"{key}" is no longer supported: {advice}.')


def _ignore_empty(report: Report, section: Object) -> None:
    for key in ("account_id", "route"):
        if section.get(key) == "":
            del section[key]
            report.warn("empty-ignored", key, f'"{key}" is empty and is ignored: delete it.')


def _apply_python(report: Report, document: Object) -> None:
    """A Python `main` needs its flag, turns bundling off and brings its module rule."""
    main = document.get("main")
    if not isinstance(main, str) or not main.endswith(".py"):
        return
    document["no_bundle"] = True
    rules = document.get("rules")
    if isinstance(rules, list) and not any(is_object(r) and r.get("type") == "PythonModule" for r in rules):
        document["rules"] = [*rules, copy.deepcopy(PYTHON_RULE)]
    flags = document.get("compatibility_flags")
    if isinstance(flags, str | list) and PYTHON_FLAG not in flags:
        report.error(
            "python-flag-missing",
            "compatibility_flags",
            f'"main" is {show(main)}, so "compatibility_flags" must contain "{PYTHON_FLAG}".',
        )
