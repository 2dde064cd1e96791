"""The checks of the sections that are no plain bindings: names, dates, variables, triggers, assets, queues, `dev`."""

import re
from collections.abc import Callable

from .bindings import BY_KEY, QUEUE_PRODUCERS, bindings_check, list_check
from .checks import (
    Check,
    Scope,
    object_or_error,
    optional,
    required,
    typed_list,
    unexpected,
    wrong_type,
)
from .diagnostics import Report
from .values import MISSING, has_type, is_object, show, type_name

NAME = re.compile(r"(?:[a-z0-9_][a-z0-9_-]*)?")
_ISO_DATE = re.compile(r"\d{4}(?:[-/](?P<m>\d{1,2})(?:[-/](?P<d>\d{1,2}))?)?(?:[T ](?P<h>\d{2}):(?P<min>\d{2}).*)?")
_US_DATE = re.compile(r"(?P<m>\d{1,2})[-/](?P<d>\d{1,2})[-/]\d{4}")
_NAMED_DATE = re.compile(
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? +(?P<d>\d{1,2}),? +\d{4}", re.IGNORECASE
)
_LONG_DASHES = str.maketrans({"\u2013": "-", "\u2014": "-"})


def check_name(scope: Scope, key: str, value: object) -> None:
    """`name`: lower-case letters, digits, `_` and `-`."""
    if value is MISSING or (isinstance(value, str) and NAME.fullmatch(value)):
        return
    message = f'"{key}" must be a text of a-z, 0-9, "_" and "-", not beginning with "-", but is {show(value)}.'
    scope.report.error("bad-name", key, message)


def check_date(scope: Scope, key: str, value: object) -> None:
    """`compatibility_date`: a date. A long dash gets an error of its own, since it looks right on the screen.

    The platform hands the text to JavaScript's lenient date parser. Here its usual forms pass: year first, or month
    first as in the United States, or the month's name; parts may be short, and a day up to 31 passes in every month.
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
    if not _is_date(plain.strip()):
        scope.report.error("bad-date", key, f'"{key}" must be a date "YYYY-MM-DD", but is {show(value)}.')


def _is_date(text: str) -> bool:
    match = _ISO_DATE.fullmatch(text) or _US_DATE.fullmatch(text) or _NAMED_DATE.fullmatch(text)
    if match is None:
        return False
    parts = {name: int(part) for name, part in match.groupdict().items() if part is not None}
    return (
        1 <= parts.get("m", 1) <= 12
        and 1 <= parts.get("d", 1) <= 31
        and parts.get("h", 0) <= 24
        and parts.get("min", 0) <= 59
    )


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
    top = scope.top_value(key)
    names = top.keys() if is_object(top) else frozenset[str]()
    for name in section if names else ():
        if name not in names:
            scope.report.warn(
                "define-not-at-top",
                f"{path}.{name}",
                f'"{path}.{name}" stands in the environment alone, but an environment can only override what '
                f'"{key}" has at the top level.',
            )


def _lacking_names(scope: Scope, key: str, value: object, code: str) -> None:
    top = scope.top_value(key)
    if not is_object(top) or not isinstance(value, dict | list):
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


DEV_KEYS = {"ip": "text", "port": "number", "inspector_port": "number", "inspector_ip": "text",
            "local_protocol": "text", "upstream_protocol": "text", "host": "text", "enable_containers": "boolean",
            "container_engine": "text", "generate_types": "boolean"}  # fmt: skip


def check_dev(scope: Scope, key: str, value: object) -> None:
    """`dev`: how the local server listens."""
    if value is None:
        return
    section = object_or_error(scope, key, value)
    if section is None:
        return
    unexpected(scope.report, key, section, DEV_KEYS)
    # without one of its own, the upstream's protocol is the local one, and just as wrong
    section = {
        **section,
        "upstream_protocol": section.get("upstream_protocol", section.get("local_protocol", MISSING)),
    }
    for name, wanted in DEV_KEYS.items():
        choices = ("http", "https") if name.endswith("_protocol") else ()
        optional(scope.report, f"{key}.{name}", section.get(name, MISSING), wanted, choices)


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
