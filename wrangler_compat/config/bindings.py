"""Binding kinds as data: which fields an entry has, and in what container the entries stand.

One table serves the validation, the search for names used twice, and the list of bindings that a host refuses by
name.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from .checks import Check, Scope, object_or_error, optional, unexpected, wrong_type
from .diagnostics import Report
from .values import MISSING, Object, get, has_type, is_object, show

BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
WORKFLOW_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_-]{0,63}")

Extra = Callable[[Report, str, Object], None]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a binding.

    need: `must` (absent, of another type or, with `filled`, empty: the error `required`), `may` (another type:
    `wrong-type`), or `if-given` (may be absent, but what is there must be right, else `required`: the platform words
    these as if the field were missing).
    """

    name: str
    type: str = "text"
    need: Literal["must", "may", "if-given"] = "may"
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of binding. `key` is the section, `noun` its name in messages, `name_field` what names the binding in
    `env`.

    form: `list` (a list of entries), `one` (a single entry), `bindings` (an object with a list `bindings`), `names`
    (an object whose keys are the names). `relative`: paths of errors are relative to the entry, which has a node of
    its own. `open`: unknown keys are not warned about.
    """

    key: str
    noun: str
    form: Literal["list", "one", "bindings", "names"] = "list"
    fields: tuple[Field, ...] = ()
    name_field: str = "binding"
    relative: bool = False
    open: bool = False
    extra: Extra | None = None


def check_entry(report: Report, base: str, path: str, value: object, kind: Kind) -> None:
    """Checks one entry at `path`; `base` is put before the field names in errors (empty below the entry's own
    node).
    """
    if not is_object(value):
        if not has_type(value, "object") or value is None:
            wrong_type(report, path, value, "object")
            return
        value = {}
    for entry in kind.fields:
        place = f"{base}{entry.name}"
        given = value.get(entry.name, MISSING)
        right = given is not MISSING and has_type(given, entry.type) and not (entry.filled and not given)
        if right or (given is MISSING and entry.need != "must"):
            continue
        if entry.need == "may":
            optional(report, place, given, entry.type)
        else:
            what = f"a {'non-empty ' if entry.filled else ''}{entry.type}"
            report.error("required", place, f'"{path}.{entry.name}" must be {what}, but is {show(given)}.')
    if kind.extra is not None:
        kind.extra(report, base, value)
    if not kind.open:
        unexpected(report, path, value, {entry.name for entry in kind.fields})


def list_check(kind: Kind) -> Check:
    """The check of a section that is a list of bindings."""

    def check(scope: Scope, key: str, value: object) -> None:
        if value is MISSING:
            return
        path = scope.path(key)
        if not isinstance(value, list):
            wrong_type(scope.report, path, value, "list")
            return
        for index, entry in enumerate(value):
            place = f"{path}[{index}]"
            check_entry(scope.report, f"{place}.", place, entry, kind)
        # the platform compares the field `binding` of sections, which `queues.producers` is none of
        if kind.name_field == "binding" and kind is not QUEUE_PRODUCERS:
            for name in _lacking(scope.top_value(key), value, kind.name_field):
                scope.report.warn(
                    "env-lacks-binding",
                    f"{key}:{name}",
                    f'"{key}" has the binding "{name}" at the top level, but not in "env.{scope.environment}". '
                    f'"{key}" is not inherited: add the binding there too if it is needed.',
                )

    return check


def bindings_check(kind: Kind) -> Check:
    """The check of a section that is an object with a list `bindings`."""

    def check(scope: Scope, key: str, value: object) -> None:
        path = scope.path(key)
        container = object_or_error(scope, path, value)
        if container is None:
            return
        entries = container.get("bindings", MISSING)
        if entries is MISSING:
            scope.report.error("required", f"{path}.bindings", f'"{path}" must have a list "bindings".')
            return
        if not isinstance(entries, list):
            wrong_type(scope.report, f"{path}.bindings", entries, "list")
            return
        wrong = False
        for index, entry in enumerate(entries):
            place = f"{path}.bindings[{index}]"
            node = scope.report.child(f'"{place}": {show(entry)}')
            check_entry(node, "", place, entry, kind)
            wrong = wrong or bool(node.errors)
        lacking = _lacking(scope.top_value(key, "bindings"), entries, kind.name_field)
        if lacking and not wrong:
            names = ", ".join(lacking)
            scope.report.warn(
                "env-lacks-binding",
                f"{key}:{names}",
                f'"{key}" has bindings at the top level that "env.{scope.environment}" lacks: {names}. It is not '
                "inherited: add them there too if they are needed.",
            )

    return check


def one_check(kind: Kind) -> Check:
    """The check of a section that is a single binding."""

    def check(scope: Scope, key: str, value: object) -> None:
        path = scope.path(key)
        container = object_or_error(scope, path, value)
        if container is not None:
            check_entry(scope.report, "", path, container, kind)

    return check


def _lacking(top: object, entries: list[object], name_field: str) -> list[str]:
    """Names of bindings that the top level has, and the environment's own list has not."""
    if not isinstance(top, list):
        return []
    here = {str(get(entry, name_field)) for entry in entries if is_object(entry)}
    names = [get(entry, name_field) for entry in top if is_object(entry)]
    return [name for name in names if isinstance(name, str) and name not in here]


def _bucket(report: Report, base: str, value: Object) -> None:
    for name in ("bucket_name", "preview_bucket_name"):
        given = value.get(name, MISSING)
        if isinstance(given, str) and given and BUCKET_NAME.fullmatch(given) is None:
            report.error(
                "bad-bucket-name",
                f"{base}{name}",
                f'"{base}{name}" is {show(given)}: a bucket name has 3 to 63 characters of a-z, 0-9 and "-", and '
                'neither begins nor ends with "-".',
            )
    local = value.get("local_dev", MISSING)
    if not is_object(local):
        return  # its type was checked with the fields
    credentials = local.get("experimental_s3_credentials", MISSING)
    if credentials is not MISSING:
        path = "local_dev.experimental_s3_credentials"
        report.warn("experimental", path, f'"{path}" is experimental on the platform and may change.')
        pair = ("accessKeyId", "secretAccessKey")
        if not is_object(credentials) or not all(isinstance(credentials.get(key), str) for key in pair):
            report.error("wrong-shape", f"{base}{path}", f'"{base}{path}" must have the texts {" and ".join(pair)}.')
    unexpected(report, f"{base}local_dev", local, {"experimental_s3_credentials"})


def _durable_object(report: Report, base: str, value: Object) -> None:
    if "environment" in value and "script_name" not in value:
        report.error(
            "required-with",
            f"{base}script_name",
            '"environment" names an environment of another Worker, so "script_name" must name that Worker.',
        )


def _workflow(report: Report, base: str, value: Object) -> None:
    name = value.get("name", MISSING)
    if isinstance(name, str) and WORKFLOW_NAME.fullmatch(name) is None:
        report.error(
            "bad-workflow-name",
            f"{base}name",
            f'"{base}name" is {show(name)}: a workflow name has 1 to 64 letters, digits, "_" and "-", not first "-".',
        )


def _email(report: Report, base: str, value: Object) -> None:
    if "destination_address" in value and "allowed_destination_addresses" in value:
        report.error(
            "mutually-exclusive",
            f"{base}destination_address,{base}allowed_destination_addresses",
            f'"{base}destination_address" and "allowed_destination_addresses" exclude each other.',
        )


def _rate_limit(report: Report, base: str, value: Object) -> None:
    simple = value.get("simple", MISSING)
    if simple is None:
        report.error("required", f"{base}simple", f'"{base}simple" must be an object, but is null.')
    if not is_object(simple):
        return
    check_entry(report, f"{base}simple.", f"{base}simple", simple, _RATE)
    if has_type(simple.get("period", MISSING), "number") and simple["period"] not in (10, 60):
        report.error("not-one-of", f"{base}simple.period", f'"{base}simple.period" must be 10 or 60.')


def _vpc_network(report: Report, base: str, value: Object) -> None:
    if ("tunnel_id" in value) == ("network_id" in value):
        report.error(
            "one-of-required",
            f"{base}tunnel_id,{base}network_id",
            f'exactly one of "{base}tunnel_id" and "{base}network_id" is required.',
        )


def _pipeline(report: Report, base: str, value: Object) -> None:
    if value.get("stream"):
        return
    if value.get("pipeline"):
        report.warn("deprecated", f"{base}pipeline", f'"{base}pipeline" is deprecated: use "stream".')
    else:
        report.error("required", f"{base}stream", f'"{base}stream" is required.')


def _queue_producer(report: Report, base: str, value: Object) -> None:
    if value.get("delivery_delay", MISSING) is not MISSING:
        report.warn(
            "deprecated",
            f"{base}delivery_delay",
            f'"{base}delivery_delay" is deprecated and has no effect on the platform; it has one here.',
        )


def _must(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, need="must") for name in names)


def _may(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name) for name in names)


REMOTE = Field("remote", "boolean")
BINDING = _must("binding")
_RATE = Kind("simple", "Rate limit", fields=(Field("limit", "number", "must"), Field("period", "number", "must")))

DURABLE_OBJECTS = Kind(
    "durable_objects", "Durable Object", "bindings", name_field="name", relative=True, extra=_durable_object,
    fields=(*_must("name", "class_name"), *_may("script_name", "environment")),
)  # fmt: skip
QUEUE_PRODUCERS = Kind(
    "queues", "Queue", extra=_queue_producer,
    fields=(*BINDING, Field("queue", need="must", filled=True), Field("delivery_delay", "number"), REMOTE),
)  # fmt: skip

KINDS: tuple[Kind, ...] = (
    Kind("data_blobs", "Data blob", "names"),
    DURABLE_OBJECTS,
    Kind("kv_namespaces", "KV namespace",
         fields=(*BINDING, Field("id", need="if-given", filled=True), Field("preview_id"), REMOTE)),
    Kind("send_email", "Email", name_field="name", extra=_email,
         fields=(*_must("name"), *_may("binding", "destination_address"),
                 Field("allowed_destination_addresses", "object"),
                 Field("allowed_sender_addresses", "object"), REMOTE)),
    QUEUE_PRODUCERS,
    Kind("d1_databases", "D1 database",
         fields=(*BINDING, *_may("database_id", "database_name", "preview_database_id", "migrations_dir",
                                 "migrations_pattern", "migrations_table", "database_internal_env"), REMOTE)),
    Kind("vectorize", "Vectorize index", fields=(*_must("binding", "index_name"), REMOTE)),
    Kind("ai_search_namespaces", "AI Search namespace", fields=(*_must("binding", "namespace"), REMOTE)),
    Kind("ai_search", "AI Search instance", fields=(*_must("binding", "instance_name"), REMOTE)),
    Kind("websearch", "Web search", "one", fields=(*BINDING, REMOTE)),
    Kind("agent_memory", "Agent memory", fields=(*_must("binding", "namespace"), REMOTE)),
    Kind("hyperdrive", "Hyperdrive", fields=(*_must("binding", "id"), *_may("localConnectionString"))),
    Kind("r2_buckets", "R2 bucket", extra=_bucket,
         fields=(*BINDING, Field("bucket_name", need="if-given", filled=True),
                 *_may("preview_bucket_name", "jurisdiction"), REMOTE, Field("local_dev", "object"))),
    Kind("logfwdr", "Log forwarder", "bindings", name_field="name", relative=True,
         fields=_must("name", "destination")),
    Kind("services", "Service", open=True,
         fields=(*_must("binding", "service"), *_may("environment", "entrypoint"), REMOTE)),
    Kind("analytics_engine_datasets", "Analytics Engine dataset",
         fields=(*BINDING, Field("dataset", need="if-given", filled=True))),
    Kind("text_blobs", "Text blob", "names"),
    Kind("browser", "Browser", "one", fields=(*BINDING, REMOTE)),
    Kind("ai", "AI", "one", open=True, fields=(*BINDING, REMOTE)),
    Kind("images", "Images", "one", fields=(*BINDING, REMOTE)),
    Kind("stream", "Stream", "one", fields=(*BINDING, REMOTE)),
    Kind("media", "Media", "one", fields=(*BINDING, REMOTE)),
    Kind("version_metadata", "Version metadata", "one", open=True, fields=BINDING),
    Kind("unsafe", "Unsafe", "bindings", name_field="name", relative=True, open=True, fields=_must("name", "type")),
    Kind("vars", "Variable", "names"),
    Kind("wasm_modules", "Wasm module", "names"),
    Kind("dispatch_namespaces", "Dispatch namespace", open=True, fields=(*_must("binding", "namespace"), REMOTE)),
    Kind("mtls_certificates", "mTLS certificate",
         fields=(*BINDING, Field("certificate_id", need="must", filled=True), REMOTE)),
    Kind("workflows", "Workflow", extra=_workflow,
         fields=(*_must("binding", "name", "class_name"), *_may("script_name"), REMOTE, Field("limits", "object"),
                 Field("concurrency", "object"), Field("default_retention", "object"))),
    Kind("pipelines", "Pipeline", extra=_pipeline, fields=(*BINDING, *_may("stream", "pipeline"), REMOTE)),
    Kind("secrets_store_secrets", "Secrets Store secret", fields=_must("binding", "store_id", "secret_name")),
    Kind("artifacts", "Artifacts", fields=(*_must("binding", "namespace"), REMOTE)),
    Kind("ratelimits", "Rate limit", name_field="name", extra=_rate_limit,
         fields=(*_must("name", "namespace_id"), Field("simple", "object", "must"))),
    Kind("assets", "Assets", "one", fields=_may("binding")),
    Kind("unsafe_hello_world", "Hello World", fields=(*BINDING, Field("enable_timer", "boolean"))),
    Kind("flagship", "Flagship", fields=(*_must("binding", "app_id"), REMOTE)),
    Kind("worker_loaders", "Worker loader", fields=BINDING),
    Kind("vpc_services", "VPC service", fields=(*_must("binding", "service_id"), REMOTE)),
    Kind("vpc_networks", "VPC network", extra=_vpc_network,
         fields=(*BINDING, *_may("tunnel_id", "network_id"), REMOTE)),
)  # fmt: skip

BY_KEY = {kind.key: kind for kind in KINDS}

CHECKS: dict[str, Callable[[Kind], Check]] = {"list": list_check, "bindings": bindings_check, "one": one_check}


def binding_check(key: str) -> Check:
    """The check of a binding section by its key."""
    kind = BY_KEY[key]
    return CHECKS[kind.form](kind)


def names_of(document: Object, kind: Kind) -> list[str]:
    """The names that a section binds, in order; none when an entry has no usable name (that is an error of its
    own).
    """
    section: object = document.get(kind.key, MISSING)
    if kind is QUEUE_PRODUCERS:
        section = get(document, "queues", "producers")
    if kind.form == "names":
        return list(section) if is_object(section) else []
    if kind.form == "one":
        name = get(section, kind.name_field) if is_object(section) else MISSING
        return [name] if isinstance(name, str) else []
    entries = get(section, "bindings") if kind.form == "bindings" and is_object(section) else section
    if not isinstance(entries, list):
        return []
    names = [get(entry, kind.name_field) if is_object(entry) else MISSING for entry in entries]
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(texts) == len(names) else []


def check_unique_names(report: Report, document: Object) -> None:
    """One error for each name used by several kinds, one for each kind that uses a name twice, and a closing one."""
    nouns_of: dict[str, list[str]] = {}
    for noun, name in _all_names(document):
        nouns_of.setdefault(name, []).append(noun)
    found = False
    for name, nouns in nouns_of.items():
        kinds = list(dict.fromkeys(nouns))
        if len(kinds) > 1:
            found = True
            report.error("duplicate-binding", name, f"{name} is the name of several bindings: {', '.join(kinds)}.")
        for noun in (noun for noun in kinds if nouns.count(noun) > 1):
            found = True
            report.error("duplicate-binding", name, f"{name} is the name of more than one {noun} binding.")
    if found:
        report.error(
            "bindings-not-unique",
            None,
            "Each binding needs a name of its own, since all of them are attributes of `env`.",
        )


def _all_names(document: Object) -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        for name in names_of(document, kind):
            yield kind.noun, name
    required = get(document, "secrets", "required")
    if isinstance(required, list):
        for name in required:
            if isinstance(name, str):
                yield "Secret", name
