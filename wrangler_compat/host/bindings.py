"""Builds the `env` of a Worker from its configuration."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moorage.durable_objects.runtime import DurableObjectNamespace, Runtime
from moorage.durable_objects.runtime.outgoing import gate_open
from moorage.durable_objects.runtime.web import Blob, JsBytes, JsDict, JsList, ReadableStream, to_platform
from moorage.r2 import Bucket, Types, open_bucket

from ..config import WorkerConfig, folder_of
from ..workers.discovery import Entrypoints
from ..workers.environment import Env
from .migrate import Applied
from .values import PLAIN_VALUES
from .values import BindingError as BindingError

PLATFORM_TYPES: Final = Types(
    mapping=JsDict,
    array=JsList,
    buffer=JsBytes,
    stream=ReadableStream,
    blob=Blob,
    json=lambda text: to_platform(json.loads(text)),
)
"""What results of buckets are made of, so that programs of both generations of the SDK can read them."""


@dataclass
class Buckets:
    """The open buckets of a process, by storage name: a reload keeps them."""

    kind: str
    state: Path
    environ: Mapping[str, str]
    types: Types | None = None
    now: Any = None
    opened: dict[str, Bucket] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self, name: str) -> Bucket:
        """Returns the bucket `name`, opening it at first use."""
        async with self._opening:
            if name not in self.opened:
                options: dict[str, Any] = {} if self.now is None else {"now": self.now}
                self.opened[name] = await open_bucket(
                    self.kind,
                    name=name,
                    state_folder=self.state,
                    types=self.types,
                    environment=self.environ,
                    **options,
                )
            return self.opened[name]

    async def close(self) -> None:
        """Closes every bucket."""
        opened, self.opened = self.opened, {}
        for bucket in opened.values():
            await bucket.close()


def namespaces(
    runtime: Runtime, config: WorkerConfig, found: Entrypoints, applied: Applied, old_date: bool
) -> dict[str, DurableObjectNamespace]:
    """Makes the namespaces of the Worker's own classes, by class name.

    Raises BindingError for a bound class that the module does not define.
    """
    made: dict[str, DurableObjectNamespace] = {}
    for name, stored in applied.classes.items():
        cls = found.objects.get(name)
        if cls is None:
            if name in config.bound_classes:
                offered = ", ".join(sorted(found.objects)) or "none"
                raise BindingError(
                    f"durable_objects: the class {name} is bound, but {config.main} exports no Durable Object class "
                    f"of that name; it exports: {offered}"
                )
            continue
        made[name] = runtime.namespace(
            stored.unique_key,
            cls,
            folder=folder_of(config.name, name),
            sqlite=stored.storage == "sqlite",
            delete_all_deletes_alarm=not old_date,
        )
    return made


async def build_env(
    config: WorkerConfig,
    variables: Mapping[str, Any],
    own: Mapping[str, DurableObjectNamespace],
    buckets: Buckets,
    others: Mapping[str, Mapping[str, DurableObjectNamespace]],
    extra: Mapping[str, Any],
) -> Env:
    """Returns `env`: variables, namespaces, buckets, and what `extra` brings (bindings of other kinds).

    `others` are the namespaces of the other Workers of the process, by Worker and class. Raises BindingError.
    """
    plain = PLAIN_VALUES in config.compatibility_flags
    bindings: dict[str, Any] = {name: value if plain else to_platform(value) for name, value in variables.items()}
    for binding in config.durable_objects:
        if binding.script_name in (None, config.name):
            bindings[binding.name] = own[binding.class_name]
            continue
        other = others.get(binding.script_name or "", {}).get(binding.class_name)
        if other is None:
            raise BindingError(
                f"durable_objects: {binding.name} is bound to {binding.class_name} of the Worker "
                f"{binding.script_name}, which does not run in this process; name its folder on the command line too"
            )
        bindings[binding.name] = other
    for bucket in config.r2_buckets:
        opened = await buckets.get(bucket.storage_name)
        # a call of an object waits until what the object wrote before is durable
        bindings[bucket.binding] = Bucket(
            opened.backend, types=buckets.types if plain else PLATFORM_TYPES, before=gate_open
        )
    bindings.update(extra)
    return Env(bindings)
