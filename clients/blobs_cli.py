"""Store, read and list blobs of the state plane."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .connection import connection_options, show

if TYPE_CHECKING:
    from .http import Http

PROGRESS_FROM_BYTES = 16 * 1024 * 1024


@click.group("blobs")
def command() -> None:
    """Store, read and list blobs: ledger/v1/ and artifacts/ are written once, assets/ may be replaced."""


@contextmanager
def _progress(size: int, label: str) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on standard error for long transfers, when a person is looking."""
    if size < PROGRESS_FROM_BYTES or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=size, label=label, file=sys.stderr) as bar:
        yield bar.update


@command.command("put")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("path")
@click.option(
    "--read-back",
    type=click.Choice(["multipart", "always", "never"]),
    default="multipart",
    show_default=True,
    help="When to read the blob back and compare it. The service checks the digest of a single put by itself.",
)
@connection_options
def put(file: Path, path: str, read_back: Any, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Store FILE as the blob PATH, in one request or in parts of 8 MiB."""
    from .blobs import Blobs

    with http_of() as http, _progress(file.stat().st_size, path) as progress:
        done = Blobs(http).put_file(path, file, read_back=read_back, progress=progress)
    value = {
        "path": done.path,
        "bytes": done.size,
        "digest": done.digest,
        "unchanged": done.unchanged,
        "readBack": done.read_back,
    }
    show(
        value,
        as_json,
        f"{done.path}: {done.size} bytes, {'unchanged' if done.unchanged else 'stored'}, {done.digest}",
    )


@command.command("get")
@click.argument("path")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=str))
@connection_options
def get(path: str, file: str, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Write the blob PATH to FILE (- is standard output). FILE appears whole or not at all."""
    from .blobs import Blobs
    from .errors import NotFound

    with http_of() as http:
        blobs = Blobs(http)
        if file == "-":
            blobs.download(path, sys.stdout.buffer)
            return
        blob = blobs.stat(path)
        if blob is None:
            raise NotFound(404, "blob_not_found", {}, what=path)
        target = Path(file)
        partial = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with partial.open("wb") as handle, _progress(blob.size, path) as progress:
                blobs.download(path, handle, progress)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    show(blob.descriptor(), as_json, f"{file}: {blob.size} bytes")


@command.command("stat")
@click.argument("path")
@connection_options
def stat(path: str, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Print size and digest of the blob PATH."""
    from .blobs import Blobs
    from .errors import NotFound

    with http_of() as http:
        blob = Blobs(http).stat(path)
    if blob is None:
        raise NotFound(404, "blob_not_found", {}, what=path)
    how = "computed by the service" if blob.verified else "the uploader's word"
    show(blob.descriptor(), as_json, f"{blob.path}: {blob.size} bytes, {blob.digest or 'digest unknown'} ({how})")


@command.command("list")
@click.argument("prefix")
@connection_options
def list_blobs(prefix: str, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Print every blob below PREFIX, a line each: ledger/v1, assets, artifacts/exact-review/v1, or a folder below."""
    from .blobs import Blobs

    with http_of() as http:
        for blob in Blobs(http).list(prefix):
            if as_json:
                click.echo(json.dumps(blob.descriptor(), ensure_ascii=False))
            else:
                click.echo(f"{blob.digest or '-' * 64}  {blob.size:>12}  {blob.path}")
