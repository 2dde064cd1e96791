"""Opens a bucket by the kind of its store."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from .backend import Backend
from .backends.common import wall_clock
from .bucket import Bucket
from .errors import StoreRefused
from .values import Types

BackendKind = Literal["file", "memory", "s3", "moto"]
KINDS: Final[tuple[str, ...]] = get_args(BackendKind)

_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_])?", re.ASCII)


async def open_backend(
    kind: str,
    *,
    name: str,
    folder: Path | None = None,
    now: Callable[[], int] = wall_clock,
    environment: Mapping[str, str] | None = None,
) -> Backend:
    """The store of bucket `name`.

    `file` keeps it in `folder`, which is made when missing; `s3` takes `R2_ENDPOINT_URL`, `R2_ACCESS_KEY_ID` and
    `R2_SECRET_ACCESS_KEY` from `environment` (the process's unless given) and refuses a store without conditional
    writes; `moto` and `memory` begin empty. `now` gives milliseconds since 1970. ValueError for an unknown kind or
    a missing folder, StoreRefused when the store cannot be used.
    """
    match kind:
        case "memory":
            from .backends.memory import MemoryBackend

            return MemoryBackend(now=now)
        case "file":
            from .backends.file import FileBackend

            if folder is None:
                raise ValueError("the file backend needs `folder`, where the bucket lies")
            return await FileBackend.open(folder, now=now)
        case "s3":
            _need("boto3", kind)
            from .backends.s3 import S3Backend
            from .backends.s3_settings import S3Settings

            settings = (
                S3Settings.from_environment() if environment is None else S3Settings.from_environment(environment)
            )
            return await S3Backend.open(settings, name, now=now)
        case "moto":
            _need("boto3", kind)
            _need("moto", kind)
            from .backends.moto import MotoBackend

            return await MotoBackend.create(name, now=now)
        case _:
            raise ValueError(f"there is no R2 backend {kind!r}; there are {', '.join(KINDS)}")


async def open_bucket(
    kind: str,
    *,
    name: str,
    state_folder: Path | None = None,
    types: Types | None = None,
    now: Callable[[], int] = wall_clock,
    environment: Mapping[str, str] | None = None,
) -> Bucket:
    """The bucket `name` on a store of that kind; `await bucket.close()` when done with it.

    `file` keeps it in `<state_folder>/r2/<name>`. See `open_backend` for the rest.
    """
    folder = None
    if kind == "file":
        if state_folder is None:
            raise ValueError("the file backend needs `state_folder`")
        if not _FOLDER_NAME.fullmatch(name):
            raise ValueError(f"a bucket's name is letters, digits, '-', '_' and '.', and is {name!r}")
        folder = state_folder / "r2" / name
    return Bucket(await open_backend(kind, name=name, folder=folder, now=now, environment=environment), types=types)


def _need(module: str, kind: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        extra = "moto" if kind == "moto" else "server"
        raise StoreRefused(f"the {kind} backend needs {module}: pip install 'moorage[{extra}]'")
