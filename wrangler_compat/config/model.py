"""The finished configuration of one Worker, as a host uses it. Everything is frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from .migrations import ExportedClass, MigrationStep, Storage
from .values import JsonValue

DEFAULT_NAME = "worker"
"""What a Worker without a name is called (wrangler configuration 6)."""


@dataclass(frozen=True, slots=True)
class DurableObjectBinding:
    """`env.<name>` is the namespace of `class_name`.

    script_name: the Worker whose class it is, or None for this one. unique_key: `<worker>-<Class>`, which is also the
    name of the folder; after a rename the record of the state folder has the key that ids are made from.
    """

    name: str
    class_name: str
    script_name: str | None
    environment: str | None
    unique_key: str


@dataclass(frozen=True, slots=True)
class DurableObjectClass:
    """A class of this Worker that has storage. declared: False when it is only bound, which gives it legacy
    storage.
    """

    name: str
    storage: Storage
    declared: bool
    unique_key: str


@dataclass(frozen=True, slots=True)
class R2Bucket:
    """`env.<binding>` is a bucket."""

    binding: str
    bucket_name: str | None = None
    preview_bucket_name: str | None = None
    jurisdiction: str | None = None
    remote: bool = False
    s3_access_key: str | None = None
    s3_secret_key: str | None = field(default=None, repr=False)

    @property
    def storage_name(self) -> str:
        """What local storage is keyed by: the preview bucket, else the bucket, else the binding."""
        return self.preview_bucket_name or self.bucket_name or self.binding


@dataclass(frozen=True, slots=True)
class KvNamespace:
    """`env.<binding>` is a key-value namespace."""

    binding: str
    id: str | None = None
    preview_id: str | None = None

    @property
    def storage_name(self) -> str:
        """What local storage is keyed by: the preview id, else the id, else the binding."""
        return self.preview_id or self.id or self.binding


@dataclass(frozen=True, slots=True)
class D1Database:
    """`env.<binding>` is an SQL database."""

    binding: str
    database_id: str | None = None
    database_name: str | None = None
    preview_database_id: str | None = None
    migrations_dir: str | None = None
    migrations_table: str = "d1_migrations"

    @property
    def storage_name(self) -> str:
        """What local storage is keyed by: the preview id, else the id, else the binding."""
        return self.preview_database_id or self.database_id or self.binding


@dataclass(frozen=True, slots=True)
class QueueProducer:
    """`env.<binding>` sends to a queue. delivery_delay: in seconds, for messages that are sent without one."""

    binding: str
    queue: str
    delivery_delay: float | None = None


@dataclass(frozen=True, slots=True)
class QueueConsumer:
    """This Worker takes batches from a queue. Delays and time-outs are in seconds, as in the file."""

    queue: str
    max_batch_size: float | None = None
    max_batch_timeout: float | None = None
    max_retries: float | None = None
    dead_letter_queue: str | None = None
    retry_delay: float | None = None
    max_concurrency: float | None = None


@dataclass(frozen=True, slots=True)
class ServiceBinding:
    """`env.<binding>` calls another Worker, or a named entry point of it."""

    binding: str
    service: str
    environment: str | None = None
    entrypoint: str | None = None


@dataclass(frozen=True, slots=True)
class Assets:
    """A folder of files. `directory` is absolute; `run_worker_first` is a switch or a list of path patterns."""

    directory: Path | None = None
    binding: str | None = None
    html_handling: str = "auto-trailing-slash"
    not_found_handling: str = "none"
    run_worker_first: bool | tuple[str, ...] = False


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`env.<name>` allows `limit` calls a key in each `period` of seconds; bindings of a namespace count together."""

    name: str
    namespace_id: str
    limit: float
    period: float


@dataclass(frozen=True, slots=True)
class DevSettings:
    """How the local server listens. None where the file says nothing and the platform chooses."""

    ip: str = "localhost"
    port: int | None = None
    local_protocol: str = "http"
    upstream_protocol: str = "http"
    host: str | None = None
    inspector_ip: str | None = None
    inspector_port: int | None = None


@dataclass(frozen=True, slots=True)
class UnsupportedBinding:
    """A binding that no host of ours can serve: `kind` is the key of its section, `name` its name in `env`."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """One Worker, its environment chosen and everything inherited.

    path: the file, or None when there is none; `folder`: the file's, absolute, which relative paths start from.
    user_folder: the folder of the file that the user wrote, where `.dev.vars` lies; another one behind a redirect.
    name: with the suffix of the environment, or `worker`; `named` is False in the latter case. main: absolute;
    import_root: its folder. vars: of the configuration alone (see `variables`). required_secrets: None when
    `secrets.required` is absent, which means more than an empty list: with it, files may set nothing but the names
    listed. classes: of this Worker, live, in the order of their declaration. document: the finished values of every
    key, those the host has no field for too.
    """

    path: Path | None
    folder: Path
    user_folder: Path
    environment: str | None
    name: str
    named: bool
    main: Path | None
    import_root: Path | None
    compatibility_date: str | None
    compatibility_flags: tuple[str, ...]
    vars: Mapping[str, JsonValue]
    required_secrets: tuple[str, ...] | None
    durable_objects: tuple[DurableObjectBinding, ...]
    classes: tuple[DurableObjectClass, ...]
    migrations: tuple[MigrationStep, ...]
    exports: tuple[ExportedClass, ...]
    r2_buckets: tuple[R2Bucket, ...]
    kv_namespaces: tuple[KvNamespace, ...]
    d1_databases: tuple[D1Database, ...]
    queue_producers: tuple[QueueProducer, ...]
    queue_consumers: tuple[QueueConsumer, ...]
    services: tuple[ServiceBinding, ...]
    assets: Assets | None
    crons: tuple[str, ...]
    dev: DevSettings
    unsupported: tuple[UnsupportedBinding, ...]
    document: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    rate_limits: tuple[RateLimit, ...] = ()
    version_metadata: str | None = None

    @property
    def bound_classes(self) -> tuple[str, ...]:
        """Classes of this Worker that have a binding, each once."""
        own = (binding.class_name for binding in self.durable_objects if binding.script_name in (None, self.name))
        return tuple(dict.fromkeys(own))
