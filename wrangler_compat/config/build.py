"""From a checked document to a `WorkerConfig`."""

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

from .bindings import KINDS, names_of
from .diagnostics import Report
from .migrations import MigrationRefused, exported_classes, live_classes, steps_of
from .model import (
    DEFAULT_NAME,
    Assets,
    D1Database,
    DevSettings,
    DurableObjectBinding,
    DurableObjectClass,
    KvNamespace,
    QueueConsumer,
    QueueProducer,
    R2Bucket,
    RateLimit,
    ServiceBinding,
    UnsupportedBinding,
    WorkerConfig,
)
from .operations import folder_of
from .values import JsonValue, Object, get, is_number, is_object

SERVED = frozenset(
    {
        "vars",
        "durable_objects",
        "r2_buckets",
        "kv_namespaces",
        "d1_databases",
        "queues",
        "services",
        "assets",
        "ratelimits",
        "version_metadata",
    }
)
"""Binding sections that `WorkerConfig` has fields for; whether a host serves each of them is the host's to say."""

T = TypeVar("T", str, int, float, bool)


def build(
    document: Object,
    report: Report,
    *,
    path: Path | None,
    folder: Path,
    environment: str | None,
    user_folder: Path | None = None,
) -> WorkerConfig | None:
    """The typed configuration of a document without errors, or None if its migrations contradict each other.

    Such a contradiction is added to `report` as `unknown-class` or `existing-class`, with the path of the list.
    """
    given_name = _text(document, "name")
    name = given_name or DEFAULT_NAME
    steps, exports = steps_of(document.get("migrations")), exported_classes(document)
    bindings = tuple(_durable_objects(document, name))
    try:
        declared = live_classes(steps) | {entry.name: entry.storage for entry in exports if entry.storage is not None}
    except MigrationRefused as refused:
        report.error(refused.code, f"migrations[{refused.index}].{refused.step}", f"{refused}.")
        return None
    classes = [DurableObjectClass(c, kind, True, folder_of(name, c)) for c, kind in declared.items()]
    for binding in bindings:
        if binding.script_name in (None, name) and not any(known.name == binding.class_name for known in classes):
            classes.append(
                DurableObjectClass(binding.class_name, "legacy-kv", False, folder_of(name, binding.class_name))
            )
    main = _text(document, "main")
    main_path = (folder / main).resolve() if main else None
    required = get(document, "secrets", "required")
    return WorkerConfig(
        path=path,
        folder=folder,
        user_folder=user_folder or folder,
        environment=environment,
        name=name,
        named=bool(given_name),
        main=main_path,
        import_root=main_path.parent if main_path else None,
        compatibility_date=_text(document, "compatibility_date"),
        compatibility_flags=_texts(document.get("compatibility_flags")),
        vars=MappingProxyType(cast("dict[str, JsonValue]", document.get("vars") or {})),
        required_secrets=_texts(required) if isinstance(required, list) else None,
        durable_objects=bindings,
        classes=tuple(classes),
        migrations=steps,
        exports=exports,
        r2_buckets=tuple(_bucket(entry) for entry in _entries(document, "r2_buckets")),
        kv_namespaces=tuple(
            KvNamespace(_name(e), _text(e, "id"), _text(e, "preview_id")) for e in _entries(document, "kv_namespaces")
        ),
        d1_databases=tuple(_database(e) for e in _entries(document, "d1_databases")),
        queue_producers=tuple(
            QueueProducer(_name(e), _text(e, "queue") or "", _number(e, "delivery_delay"))
            for e in _entries(document, "queues", "producers")
        ),
        queue_consumers=tuple(_consumer(entry) for entry in _entries(document, "queues", "consumers")),
        services=tuple(
            ServiceBinding(_name(e), _text(e, "service") or "", _text(e, "environment"), _text(e, "entrypoint"))
            for e in _entries(document, "services")
        ),
        assets=_assets(document, folder),
        crons=_texts(get(document, "triggers", "crons")),
        dev=_dev(document),
        unsupported=tuple(_unsupported(document)),
        document=MappingProxyType(document),
        rate_limits=tuple(_rate_limit(entry) for entry in _entries(document, "ratelimits")),
        version_metadata=_version_metadata(document),
    )


def _value(entry: Object, key: str, kind: type[T]) -> T | None:
    value = entry.get(key)
    return value if isinstance(value, kind) else None


def _text(entry: Object, key: str) -> str | None:
    return _value(entry, key, str)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _number(entry: Object, key: str) -> float | None:
    value = entry.get(key)
    return value if is_number(value) else None


def _port(entry: Object, key: str) -> int | None:
    value = entry.get(key)
    return int(value) if is_number(value) else None


def _name(entry: Object) -> str:
    return _text(entry, "binding") or ""


def _entries(document: Object, *keys: str) -> Iterator[Object]:
    entries = get(document, *keys)
    if isinstance(entries, list):
        yield from (entry for entry in entries if is_object(entry))


def _durable_objects(document: Object, worker: str) -> Iterator[DurableObjectBinding]:
    for entry in _entries(document, "durable_objects", "bindings"):
        class_name = _text(entry, "class_name") or ""
        script = _text(entry, "script_name") or None
        yield DurableObjectBinding(
            name=_text(entry, "name") or "",
            class_name=class_name,
            script_name=script,
            environment=_text(entry, "environment"),
            unique_key=folder_of(script or worker, class_name),
        )


def _bucket(entry: Object) -> R2Bucket:
    credentials = get(entry, "local_dev", "experimental_s3_credentials")
    pair = credentials if is_object(credentials) else {}
    return R2Bucket(
        binding=_name(entry),
        bucket_name=_text(entry, "bucket_name"),
        preview_bucket_name=_text(entry, "preview_bucket_name"),
        jurisdiction=_text(entry, "jurisdiction"),
        remote=entry.get("remote") is True,
        s3_access_key=_text(pair, "accessKeyId"),
        s3_secret_key=_text(pair, "secretAccessKey"),
    )


def _database(entry: Object) -> D1Database:
    return D1Database(
        binding=_name(entry),
        database_id=_text(entry, "database_id"),
        database_name=_text(entry, "database_name"),
        preview_database_id=_text(entry, "preview_database_id"),
        migrations_dir=_text(entry, "migrations_dir"),
        migrations_table=_text(entry, "migrations_table") or "d1_migrations",
    )


def _consumer(entry: Object) -> QueueConsumer:
    return QueueConsumer(
        queue=_text(entry, "queue") or "",
        max_batch_size=_number(entry, "max_batch_size"),
        max_batch_timeout=_number(entry, "max_batch_timeout"),
        max_retries=_number(entry, "max_retries"),
        dead_letter_queue=_text(entry, "dead_letter_queue"),
        retry_delay=_number(entry, "retry_delay"),
        max_concurrency=_number(entry, "max_concurrency"),
    )


def _assets(document: Object, folder: Path) -> Assets | None:
    section = document.get("assets")
    if not is_object(section):
        return None
    directory, first = _text(section, "directory"), section.get("run_worker_first", False)
    return Assets(
        directory=(folder / directory).resolve() if directory else None,
        binding=_text(section, "binding"),
        html_handling=_text(section, "html_handling") or "auto-trailing-slash",
        not_found_handling=_text(section, "not_found_handling") or "none",
        run_worker_first=_texts(first) if isinstance(first, list) else first is True,
    )


def _rate_limit(entry: Object) -> RateLimit:
    simple = entry.get("simple")
    rule = simple if is_object(simple) else {}
    return RateLimit(
        name=_text(entry, "name") or "",
        namespace_id=_text(entry, "namespace_id") or "",
        limit=_number(rule, "limit") or 0,
        period=_number(rule, "period") or 0,
    )


def _version_metadata(document: Object) -> str | None:
    section = document.get("version_metadata")
    return _text(section, "binding") if is_object(section) else None


def _dev(document: Object) -> DevSettings:
    section = document.get("dev")
    dev = section if is_object(section) else {}
    return DevSettings(
        ip=_text(dev, "ip") or "localhost",
        port=_port(dev, "port"),
        local_protocol=_text(dev, "local_protocol") or "http",
        upstream_protocol=_text(dev, "upstream_protocol") or "http",
        host=_text(dev, "host"),
        inspector_ip=_text(dev, "inspector_ip"),
        inspector_port=_port(dev, "inspector_port"),
    )


def _unsupported(document: Object) -> Iterator[UnsupportedBinding]:
    for kind in KINDS:
        if kind.key not in SERVED:
            for name in names_of(document, kind):
                yield UnsupportedBinding(kind.key, name)
