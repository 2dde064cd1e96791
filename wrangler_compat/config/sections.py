"""The checks of the sections that are no plain bindings: variables, routes, observability, assets, `dev` and the
like.
"""

import re
from collections.abc import Callable

from .bindings import BY_KEY, QUEUE_PRODUCERS, bindings_check, list_check
from .checks import Check, Scope, object_or_error, optional, required, typed_list, unexpected, wrong_type
from .diagnostics import Report
from .values import MISSING, get, has_type, is_number, is_object, show, type_name

NAME = re.compile(r"(?:[a-z0-9_][a-z0-9_-]*)?")
_ISO_DATE = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?(?:[T ]\d{2}:\d{2}.*)?")
_LONG_DASHES = str.maketrans({"\u2013": "-", "\u2014": "-"})


def check_name(scope: Scope, key: str, value: object) -> None:
    """`name`: lower-case letters, digits, `_` and `-`."""
    if value is MISSING or (isinstance(value, str) and NAME.fullmatch(value)):
        return
    message = f'"{key}" must be a text of a-z, 0-9, "_" and "-", not beginning with "-", but is {show(value)}.'
    scope.report.error("bad-name", key, message)


def check_date(scope: Scope, key: str, value: object) -> None:
    """`compatibility_date`: a date. A long dash gets an error of its own, since it looks right on the screen.

    The platform hands the text to JavaScript's lenient date parser; here it must begin with the year, the parts
    may be separated by `-` or `/` and be short, and a day up to 31 passes in every month.
    """
    if value is MISSING:
        return
    if not isinstance(value, str):
        hint = " Put quotes around it." if type_name(value) == "date" else ""
        scope.report.error("wrong-type", key, f'"{key}" must be a text "YYYY-MM-DD", but is {show(value)}.{hint}')
        return
    plain = value.translate(_LONG_DASHES)
    if plain != value:
        scope.report.error(
            "bad-date-dash", key, f'"{key}" has a long dash in {show(value)}: use hyphens, YYYY-MM-DD.'
        )
    match = _ISO_DATE.fullmatch(plain.strip())
    if match is None or not 1 <= int(match[2] or 1) <= 12 or not 1 <= int(match[3] or 1) <= 31:
        scope.report.error("bad-date", key, f'"{key}" must be a date "YYYY-MM-DD", but is {show(value)}.')


def check_vars(scope: Scope, key: str, value: object) -> None:
    """`vars`: an object of any JSON. Names of the top level that the environment lacks are listed in a warning."""
    path = scope.path(key)
    if value is MISSING:
        return
    if not isinstance(value, dict | list):
        wrong_type(scope.report, path, value, "object")
        return
    items = value.items() if isinstance(value, dict) else ()
    for name, content in items:
        if type_name(content) == "date":
            message = f'"{path}.{name}" is a TOML date, which is no JSON value: put quotes around it.'
            scope.report.error("toml-date", f"{path}.{name}", message)
    _lacking_names(scope, key, value, "env-lacks-vars")


def check_define(scope: Scope, key: str, value: object) -> None:
    """`define`: an object of texts."""
    path = scope.path(key)
    section = object_or_error(scope, path, value)
    if section is None:
        return
    for name, content in section.items():
        optional(scope.report, f"{path}.{name}", content, "text")
    _lacking_names(scope, key, section, "env-lacks-define")


def _lacking_names(scope: Scope, key: str, value: object, code: str) -> None:
    top = scope.top_value(key)
    if not is_object(top) or not isinstance(value, dict):
        return
    lacking = [name for name in top if name not in value]
    if lacking:
        scope.report.warn(
            code,
            key,
            f'"{scope.path(key)}" lacks {", ".join(lacking)} of the top level. "{key}" is not inherited: name them '
            "there too if they are needed.",
        )


def check_secrets(scope: Scope, key: str, value: object) -> None:
    """`secrets`: `required`, a list of names."""
    path = scope.path(key)
    section = object_or_error(scope, path, value)
    if section is not None:
        unexpected(scope.report, path, section, {"required"})
        typed_list(scope.report, f"{path}.required", section.get("required", MISSING))


def check_triggers(scope: Scope, key: str, value: object) -> None:
    """`triggers`: `crons`, a list whose entries are not parsed here."""
    if value is None:
        return
    section = object_or_error(scope, key, value)
    if section is not None:
        optional(scope.report, f"{key}.crons", section.get("crons", MISSING), "list")
        unexpected(scope.report, key, section, {"crons"})


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


def check_observability(scope: Scope, key: str, value: object) -> None:
    """`observability`: one of its three `enabled` is required; rates lie within 0 and 1."""
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
        _rate(report, f"{path}.head_sampling_rate", nested.get("head_sampling_rate", MISSING))
        unexpected(report, key, nested, {"enabled", "head_sampling_rate", "destinations", "persist", *own})


def _rate(report: Report, path: str, value: object) -> None:
    if optional(report, path, value, "number") and is_number(value) and not 0 <= value <= 1:
        report.error("out-of-range", path, f'"{path}" must lie between 0 and 1, but is {show(value)}.')


def check_assets(scope: Scope, key: str, value: object) -> None:
    """`assets`: a folder of files served beside the Worker."""
    report = scope.report
    section = object_or_error(scope, key, value)
    if section is None:
        return
    choices = {
        "directory": (),
        "binding": (),
        "html_handling": ("auto-trailing-slash", "force-trailing-slash", "drop-trailing-slash", "none"),
        "not_found_handling": ("single-page-application", "404-page", "none"),
    }
    for name, allowed in choices.items():
        optional(report, f"{key}.{name}", section.get(name, MISSING), "text", allowed)
    first = section.get("run_worker_first", MISSING)
    if isinstance(first, list):
        typed_list(report, f"{key}.run_worker_first", first)
    elif first is not MISSING and not isinstance(first, bool):
        wrong_type(report, f"{key}.run_worker_first", first, "true, false or a list of path patterns")
    unexpected(report, key, section, {*choices, "run_worker_first"})


def check_queues(scope: Scope, key: str, value: object) -> None:
    """`queues`: `producers`, which are bindings, and `consumers`, which are not."""
    path = scope.path(key)
    section = object_or_error(scope, path, value)
    if section is None:
        return
    unexpected(scope.report, path, section, {"producers", "consumers"})
    consumers = section.get("consumers", MISSING)
    if optional(scope.report, f"{path}.consumers", consumers, "list") and isinstance(consumers, list):
        for index, consumer in enumerate(consumers):
            _consumer(scope.report, f"{path}.consumers[{index}]", consumer)
    list_check(QUEUE_PRODUCERS)(scope, f"{key}.producers", section.get("producers", MISSING))


def _consumer(report: Report, path: str, value: object) -> None:
    if not is_object(value):
        wrong_type(report, path, value, "object")
        return
    numbers = ("max_batch_size", "max_batch_timeout", "max_retries", "max_concurrency", "retry_delay",
               "visibility_timeout_ms")  # fmt: skip
    unexpected(report, path, value, {"queue", "type", "dead_letter_queue", *numbers})
    queue = value.get("queue", MISSING)
    if not isinstance(queue, str):
        report.error("required", f"{path}.queue", f'"{path}" must have a text "queue", but it is {show(queue)}.')
    optional(report, f"{path}.type", value.get("type", MISSING), "text", ("worker",))
    optional(report, f"{path}.dead_letter_queue", value.get("dead_letter_queue", MISSING), "text")
    for name in numbers:
        optional(report, f"{path}.{name}", value.get(name, MISSING), "number")


def check_unsafe(scope: Scope, key: str, value: object) -> None:
    """`unsafe`: bindings of any type, metadata, capnp."""
    section = object_or_error(scope, scope.path(key), value)
    if section is None:
        return
    if "bindings" in section:
        bindings_check(BY_KEY["unsafe"])(scope, key, section)
    for name in ("metadata", "capnp"):
        content = section.get(name, MISSING)
        if content is not MISSING and not is_object(content):
            wrong_type(scope.report, f"{scope.path(key)}.{name}", content, "object")
    unexpected(scope.report, key, section, {"bindings", "metadata", "capnp"})


RULE_TYPES = ("ESModule", "CommonJS", "CompiledWasm", "Text", "Data", "PythonModule", "PythonRequirement")


def check_rules(scope: Scope, key: str, value: object) -> None:
    """`rules`: how files become modules. The two Python types are accepted here; the platform adds them itself."""
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
        if required(scope.report, f"{place}.globs", globs, "list"):
            typed_list(scope.report, f"{place}.globs", globs)
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


def fields_check(types: dict[str, str], *, must: frozenset[str] = frozenset(), not_inherited: bool = False) -> Check:
    """The check of a section that is an object of plain fields, by name and type."""

    def check(scope: Scope, key: str, value: object) -> None:
        path = scope.path(key) if not_inherited else key
        section = object_or_error(scope, path, value)
        if section is None:
            return
        for name, wanted in types.items():
            rule: Callable[[Report, str, object, str], bool] = required if name in must else optional
            rule(scope.report, f"{path}.{name}", section.get(name, MISSING), wanted)
        unexpected(scope.report, path, section, types)

    return check


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


def check_dev(scope: Scope, key: str, value: object) -> None:
    """`dev`: how the local server listens."""
    if value is None:
        return
    section = object_or_error(scope, key, value)
    if section is None:
        return
    types = {"ip": "text", "port": "number", "inspector_port": "number", "inspector_ip": "text",
             "local_protocol": "text", "upstream_protocol": "text", "host": "text", "enable_containers": "boolean",
             "container_engine": "text", "generate_types": "boolean"}  # fmt: skip
    unexpected(scope.report, key, section, types)
    for name, wanted in types.items():
        choices = ("http", "https") if name.endswith("_protocol") else ()
        optional(scope.report, f"{key}.{name}", section.get(name, MISSING), wanted, choices)


def check_site(scope: Scope, key: str, value: object) -> None:
    """`site`: the older way to serve a folder of files."""
    section = object_or_error(scope, key, value)
    if section is None:
        return
    unexpected(scope.report, key, section, {"bucket", "include", "exclude", "entry-point"})
    required(scope.report, f"{key}.bucket", section.get("bucket", MISSING), "text")
    for name in ("include", "exclude"):
        typed_list(scope.report, f"{key}.{name}", section.get(name, MISSING))


def names_to_texts(scope: Scope, key: str, value: object) -> None:
    """`alias`, `wasm_modules`, `text_blobs`, `data_blobs`: an object of texts."""
    section = object_or_error(scope, key, value)
    if section is not None:
        for name, content in section.items():
            optional(scope.report, f"{key}['{name}']", content, "text")


def check_object(scope: Scope, key: str, value: object) -> None:
    """A section that must be an object; what it holds is not looked at."""
    if not has_type(value, "object") and value is not MISSING:
        wrong_type(scope.report, key, value, "object")
