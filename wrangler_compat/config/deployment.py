"""The checks of the sections that a deployment uses and nothing here does: routes, placement, bundling and the like.

They are checked so that a file that is right here is right there.
"""

from .checks import Scope, object_or_error, optional, required, text_list, typed_list, unexpected, wrong_type
from .diagnostics import Report
from .values import MISSING, Object, get, is_number, is_object, show


def check_limits(scope: Scope, key: str, value: object) -> None:
    """`limits`: numbers, not enforced here."""
    if value is None:
        return
    section = object_or_error(scope, key, value)
    if section is not None:
        for name in ("cpu_ms", "subrequests"):
            optional(scope.report, f"{key}.{name}", section.get(name, MISSING), "number")


def is_route(value: object) -> bool:
    """Whether `value` is a text, or an object with `pattern` and a zone or `custom_domain`, and nothing else."""
    if isinstance(value, str):
        return value != ""
    if not is_object(value) or not isinstance(value.get("pattern"), str):
        return False
    types = {"zone_id": str, "zone_name": str, "custom_domain": bool, "enabled": bool, "previews_enabled": bool}
    rest = {name: content for name, content in value.items() if name != "pattern"}
    if not all(name in types and isinstance(content, types[name]) for name, content in rest.items()):
        return False
    if "zone_id" in rest and "zone_name" in rest:
        return False
    if ("enabled" in rest or "previews_enabled" in rest) and "custom_domain" not in rest:
        return False
    return bool(rest.keys() & {"zone_id", "zone_name", "custom_domain"})


_ROUTE = 'a text, or an object with "pattern" and one of "zone_id", "zone_name" and "custom_domain"'


def check_route(scope: Scope, key: str, value: object) -> None:
    """`route`: one route."""
    if value is not MISSING and not is_route(value):
        scope.report.error("wrong-shape", key, f'"{key}" must be {_ROUTE}, but is {show(value)}.')


def check_routes(scope: Scope, key: str, value: object) -> None:
    """`routes`: a list of routes."""
    if value is MISSING:
        return
    if not isinstance(value, list):
        wrong_type(scope.report, key, value, "list")
        return
    wrong = [route for route in value if not is_route(route)]
    if wrong:
        shown = ", ".join(show(route) for route in wrong)
        scope.report.error("wrong-shape", key, f'each of "{key}" must be {_ROUTE}; wrong: {shown}.')


def warn_inherited_domains(scope: Scope, key: str) -> None:
    """An environment that has no `routes` of its own gets the top level's, and takes their custom domains away."""
    routes = scope.top_value(key)
    own = [r for r in routes if is_object(r) and r.get("custom_domain") is True] if isinstance(routes, list) else []
    if own:
        domains = ", ".join(str(route.get("pattern")) for route in own)
        scope.report.warn(
            "inherits-custom-domain",
            key,
            f'"env.{scope.environment}" inherits "{key}" with the custom domains {domains}, which would leave the '
            f'top level\'s Worker: give it "{key}" of its own, an empty list if need be.',
        )


def check_observability(scope: Scope, key: str, value: object) -> None:
    """`observability`: one of its three `enabled` is required; the outer rate lies within 0 and 1."""
    report = scope.report
    section = object_or_error(scope, key, value)
    if section is None:
        return
    switches = {name: get(section, *name.split(".")) for name in ("enabled", "logs.enabled", "traces.enabled")}
    if all(switch is MISSING for switch in switches.values()):
        names = ", ".join(f'"{key}.{name}"' for name in switches)
        report.error("one-of-required", key, f"one of {names} is required.")
    elif not any(isinstance(switch, bool) for switch in switches.values()):
        for name, switch in switches.items():
            message = f'one of the "enabled" of "{key}" must be true or false: "{key}.{name}" is {show(switch)}.'
            report.error("wrong-type", f"{key}.{name}", message)
    for part in ("logs", "traces"):
        optional(report, f"{key}.{part}", section.get(part, MISSING), "object")
    unexpected(report, key, section, {"enabled", "head_sampling_rate", "logs", "traces"})
    _rate(report, f"{key}.head_sampling_rate", section.get("head_sampling_rate", MISSING))
    for part, own in (("logs", {"invocation_logs"}), ("traces", set[str]())):
        nested = section.get(part, MISSING)
        if not is_object(nested):
            continue
        path = f"{key}.{part}"
        for name in ("enabled", "persist", *own):
            optional(report, f"{path}.{name}", nested.get(name, MISSING), "boolean")
        typed_list(report, f"{part}.destinations", nested.get("destinations", MISSING))
        # the recorded version looks at the range of the outer rate alone
        optional(report, f"{path}.head_sampling_rate", nested.get("head_sampling_rate", MISSING), "number")
        unexpected(report, key, nested, {"enabled", "head_sampling_rate", "destinations", "persist", *own})


def _rate(report: Report, path: str, value: object) -> None:
    if optional(report, path, value, "number") and is_number(value) and not 0 <= value <= 1:
        report.error("out-of-range", path, f'"{path}" must lie between 0 and 1, but is {show(value)}.')


RULE_TYPES = ("ESModule", "CommonJS", "CompiledWasm", "Text", "Data")


def check_rules(scope: Scope, key: str, value: object) -> None:
    """`rules`: how files become modules. The types of Python are refused: the platform's tool adds them itself."""
    path = scope.path(key)
    if value is MISSING or value is None:
        return
    if not isinstance(value, list):
        wrong_type(scope.report, path, value, "list")
        return
    for index, rule in enumerate(value):
        place = f"{path}[{index}]"
        if not is_object(rule):
            wrong_type(scope.report, place, rule, "object")
            continue
        required(scope.report, f"{place}.type", rule.get("type", MISSING), "text", RULE_TYPES)
        globs = rule.get("globs", MISSING)
        typed_list(scope.report, f"{place}.globs", None if globs is MISSING else globs)
        optional(scope.report, f"{place}.fallthrough", rule.get("fallthrough", MISSING), "boolean")


def check_build(scope: Scope, key: str, value: object) -> None:
    """`build`: a command that is run before the Worker is read."""
    section = object_or_error(scope, key, value)
    if section is None:
        return
    unexpected(scope.report, key, section, {"command", "cwd", "watch_dir"})
    for name in ("command", "cwd"):
        optional(scope.report, f"{key}.{name}", section.get(name, MISSING), "text")
    folders = section.get("watch_dir", MISSING)
    if isinstance(folders, list):
        typed_list(scope.report, f"{key}.watch_dir", folders)
    else:
        optional(scope.report, f"{key}.watch_dir", folders, "text")


def check_tail_consumers(scope: Scope, key: str, value: object) -> None:
    """`tail_consumers` and `streaming_tail_consumers`: lists of services."""
    path = scope.path(key)
    if optional(scope.report, path, value, "list") and isinstance(value, list):
        for index, consumer in enumerate(value):
            place = f"{path}[{index}]"
            if not is_object(consumer):
                wrong_type(scope.report, place, consumer, "object")
                continue
            required(scope.report, f"{place}.service", consumer.get("service", MISSING), "text")
            for name in ("environment", "entrypoint"):
                optional(scope.report, f"{place}.{name}", consumer.get(name, MISSING), "text")


def check_containers(scope: Scope, key: str, value: object) -> None:
    """`containers`: shapes only, since no container is started here."""
    path = scope.path(key)
    if value is None or not optional(scope.report, path, value, "list") or not isinstance(value, list):
        return
    for index, container in enumerate(value):
        place = f"{path}[{index}]"
        if not is_object(container):
            wrong_type(scope.report, place, container, "object")
            continue
        for name in ("class_name", "name", "image", "image_build_context"):
            optional(scope.report, f"{place}.{name}", container.get(name, MISSING), "text")
        if not container.get("image") and get(container, "configuration", "image") in (MISSING, None, ""):
            scope.report.error(
                "required", f"{place}.image", f'"{place}.image" is required: a Dockerfile or an image.'
            )


def check_site(scope: Scope, key: str, value: object) -> None:
    """`site`: the older way to serve a folder of files."""
    section = object_or_error(scope, key, value)
    if section is None:
        return
    unexpected(scope.report, key, section, {"bucket", "include", "exclude", "entry-point"})
    required(scope.report, f"{key}.bucket", section.get("bucket", MISSING), "text")
    for name in ("include", "exclude"):
        typed_list(scope.report, f"{key}.{name}", section.get(name, MISSING))
    optional(scope.report, f"{key}.entry-point", section.get("entry-point", MISSING), "text")


def finished_site(report: Report, section: Object, main: object) -> Object:
    """`site` with its defaults. Its own entry point has given way to `main`, and excludes it."""
    entry = section.get("entry-point", MISSING)
    if entry is not MISSING:
        report.warn("deprecated", "site.entry-point", '"site.entry-point" is deprecated: use "main".')
    if main and entry is not MISSING and entry:
        report.error(
            "mutually-exclusive", "main,site.entry-point", '"main" and "site.entry-point" say the same thing.'
        )
    elif not main and (entry is MISSING or not entry):
        report.warn("deprecated", "site", '"site" without "main" means "workers-site", which is deprecated.')
        entry = "workers-site"
    known = {
        "bucket": section.get("bucket"),
        "include": section.get("include", []),
        "exclude": section.get("exclude", []),
    }
    return known if entry is MISSING else {**known, "entry-point": entry}


_TARGETS = ("region", "host", "hostname")


def check_placement(scope: Scope, key: str, value: object) -> None:
    """`placement`: `mode` with a `hint` (smart), or one of `region`, `host` and `hostname` (targeted)."""
    report = scope.report
    section = None if value is None else object_or_error(scope, key, value)
    if section is None:
        return
    targets = [name for name in _TARGETS if name in section]
    mode = section.get("mode", MISSING)
    if "hint" in section and targets:
        report.error("mutually-exclusive", f"{key}.hint,{key}.{targets[0]}", f'"{key}" has a hint and a target.')
    elif "hint" in section:
        required(report, f"{key}.mode", mode, "text", ("off", "smart"))
        hint = section["hint"]
        optional(report, f"{key}.hint", hint, "text")
        if hint and mode != "smart":
            report.error("required-with", f"{key}.hint", f'"{key}.hint" is for the mode "smart" alone.')
    elif targets:
        optional(report, f"{key}.mode", mode, "text", ("off", "targeted"))
        for name in targets:
            optional(report, f"{key}.{name}", section[name], "text")
        if len(targets) > 1:
            paths = ",".join(f"{key}.{name}" for name in targets)
            report.error("mutually-exclusive", paths, f'"{key}" has more than one of {", ".join(targets)}.')
    else:
        required(report, f"{key}.mode", mode, "text", ("off", "smart", "targeted"))


def check_python_modules(scope: Scope, key: str, value: object) -> None:
    """`python_modules`: `exclude`, a list of patterns."""
    if value is MISSING:
        return
    if not is_object(value):
        wrong_type(scope.report, key, value, "object")
        return
    text_list(scope, f"{key}.exclude", value.get("exclude", MISSING))
