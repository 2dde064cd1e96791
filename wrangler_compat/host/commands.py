"""`moorage serve` and `moorage dev`."""

import logging
import os
import secrets
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..config import ConfigError, load
from .settings import SETTINGS, HostSettings

SECRET_BYTES = 32

_log = logging.getLogger("moorage.host")


def bundle() -> Path:
    """The folder of the state plane's own configuration, also in an installed wheel."""
    from importlib.util import find_spec

    spec = find_spec("moorage.worker.bundle")
    if spec is None or not spec.submodule_search_locations:
        raise click.ClickException(
            "the state plane's bundle is not installed; install moorage with its extra [server]"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _variable(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", context, parameter)
        found[name] = text
    return found


_HELP = {row.name: row.help for row in SETTINGS}
# Settings whose options are more than a name and a value; every other row of the table makes its own.
_OWN = frozenset({"state", "host", "port", "admin_port", "r2", "idle_seconds", "max_objects", "access_log"})
_SWITCHED = frozenset({"state", "durable", "test_hooks"})


def _plain_options() -> list[Any]:
    made = []
    for row in SETTINGS:
        name = row.name.replace("_", "-")
        if row.name in _OWN | _SWITCHED:
            continue
        if isinstance(row.default, bool):
            made.append(click.option(f"--{name}/--no-{name}", default=None, help=row.help))
        elif isinstance(row.default, int | float):
            kind = click.IntRange(int(row.least)) if isinstance(row.default, int) else click.FloatRange(row.least)
            made.append(click.option(f"--{name}", type=kind, default=None, help=row.help))
        else:
            made.append(click.option(f"--{name}", default=None, help=row.help))
    return made


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.argument(
            "folders", nargs=-1, metavar="[DIR]...", type=click.Path(path_type=Path, exists=True, file_okay=False)
        ),
        click.option("--port", type=click.IntRange(0, 65535), default=None, help=_HELP["port"]),
        click.option("--host", default=None, help=_HELP["host"]),
        click.option("--state", type=click.Path(path_type=Path), default=None, metavar="FOLDER", help=_HELP["state"]),
        click.option("--env", "environment", metavar="NAME", help="environment of the configuration"),
        click.option(
            "--config",
            "config_file",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="configuration file; ends the search",
        ),
        click.option(
            "--var",
            "variables",
            multiple=True,
            callback=_variable,
            metavar="NAME=VALUE",
            help="a variable; may be repeated",
        ),
        click.option(
            "--env-file",
            "env_files",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="file of variables, instead of .dev.vars and .env; beside the configuration; may be repeated",
        ),
        click.option("--r2", type=click.Choice(["file", "memory", "moto", "s3"]), default=None, help=_HELP["r2"]),
        click.option("--admin-port", type=click.IntRange(-1, 65535), default=None, help=_HELP["admin_port"]),
        click.option(
            "--init-secrets", is_flag=True, help="write missing secrets of the state plane into .dev.vars, once"
        ),
        click.option("--test-hooks", is_flag=True, help=_HELP["test_hooks"]),
        click.option("--idle-seconds", type=click.FloatRange(0), default=None, help=_HELP["idle_seconds"]),
        click.option("--max-objects", type=click.IntRange(0), default=None, help=_HELP["max_objects"]),
        click.option("--access-log/--no-access-log", default=None, help=_HELP["access_log"]),
        click.option("--no-durable", is_flag=True, help=_HELP["durable"]),
        *_plain_options(),
        click.option(
            "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("serve")
@_options
@click.option("--require-secrets", is_flag=True, help="refuse to start without the secrets that are required")
def serve(require_secrets: bool, **options: Any) -> None:
    """Serve the Worker in DIR, or the state plane: JSON log, graceful stop, no reload.

    Variables and secrets that the configuration declares also come from the process environment, which wins.
    """
    _run("serve", require_secrets=require_secrets, **options)


@click.command("dev")
@_options
def dev(**options: Any) -> None:
    """Serve the Worker in DIR on 127.0.0.1:8787 and load it again whenever its files change.

    With several folders the first Worker answers the port; the others are reached by bindings.
    """
    _run("dev", require_secrets=False, **options)


def _chosen(folders: tuple[Path, ...], config_file: Path | None) -> tuple[list[Path], bool]:
    """The folders to serve, and whether that is the bundle."""
    if folders:
        return [folder.resolve() for folder in folders], False
    if config_file is not None:
        return [config_file.resolve().parent], False
    here = Path.cwd()
    if any((here / name).is_file() for name in ("wrangler.json", "wrangler.jsonc", "wrangler.toml")):
        return [here], False
    return [bundle()], True


def _listening(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """What `dev` in the configuration says of address and port; nothing while the file has errors."""
    config = load(folder, config=options["config_file"], environment=options["environment"]).config
    if config is None:
        return {}
    if "https" in (config.dev.local_protocol, config.dev.upstream_protocol):
        _log.warning("dev: https is not served here; put a proxy in front of it")
    if not 0 <= (config.dev.port or 0) <= 65_535:
        raise click.ClickException(f"{config.path}: dev.port is {config.dev.port}, but must be from 0 to 65535")
    address = {"localhost": None, "*": "0.0.0.0"}.get(config.dev.ip, config.dev.ip)
    found = {"host": address, "port": config.dev.port}
    return {name: value for name, value in found.items() if value is not None}


def _settings(options: dict[str, Any], mode: str, base: Path, folder: Path | None) -> HostSettings:
    settings = HostSettings()
    given = _listening(folder, options) if mode == "dev" and folder is not None else {}
    given |= {
        row.name: options[row.name] for row in SETTINGS if row.name not in _SWITCHED and options[row.name] is not None
    }
    if "r2" not in given and os.environ.get("R2_ENDPOINT_URL"):
        given["r2"] = "s3"
    if "access_log" not in given and folder is None:
        given["access_log"] = False  # the state plane logs its requests itself, with the key that signed
    state = options["state"] or base / settings.state
    try:
        return replace(
            settings,
            state=state.resolve(),
            durable=not options["no_durable"],
            test_hooks=options["test_hooks"],
            **given,
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _run(mode: str, *, require_secrets: bool, **options: Any) -> None:
    try:
        import starlette  # noqa: F401 - only to say clearly what is missing
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise click.ClickException(f"{error.name} is not installed: pip install 'moorage[server]'") from None
    from . import faults, logs, server
    from .clock import AdjustableClock
    from .host import Host

    kind: type[Host] = Host
    beside = None
    if mode == "dev":
        from .reload import ReloadingHost, watch

        kind, beside = ReloadingHost, watch
    logs.configure(as_json=mode == "serve", level=getattr(logging, options["log_level"].upper()))
    folders, bundled = _chosen(options["folders"], options["config_file"])
    base = Path.cwd() if bundled else folders[0]
    settings = _settings(options, mode, base, None if bundled else folders[0])
    env_files = list(options["env_files"]) or None
    if bundled:
        secrets_file = base / ".dev.vars"
        if options["init_secrets"]:
            init_secrets(secrets_file, _required(folders[0]))
        if env_files is not None:
            env_files = [base / path for path in env_files]
        elif secrets_file.is_file():
            env_files = [secrets_file]
    elif options["init_secrets"]:
        raise click.UsageError("--init-secrets is for the state plane; a Worker's own secrets go into its .dev.vars")
    if options["config_file"] is not None and len(folders) > 1:
        raise click.UsageError("--config names the file of one Worker: give one folder, or none")
    host = kind(
        folders,
        settings,
        mode=mode,
        environment=options["environment"],
        config_file=options["config_file"],
        variables=options["variables"],
        env_files=env_files,
        require_secrets=require_secrets,
        clock=AdjustableClock() if settings.test_hooks else None,
    )
    try:
        server.run(server.serve_until_signalled(host, ready=_greet, beside=beside))
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    except Exception as error:
        text = faults.told(error)
        if isinstance(error, OSError) and Path(str(error.filename)).is_relative_to(settings.state):
            text = f"the state folder cannot be used; choose another with --state: {text}"
        raise click.ClickException(f"the Worker cannot be started:\n{text}" if "\n" in text else text) from None


def _required(folder: Path) -> tuple[str, ...]:
    return load(folder).require().required_secrets or ()


def init_secrets(path: Path, names: tuple[str, ...]) -> list[str]:
    """Adds a random value for every name that `path` does not set (mode 0600); returns the names that were added."""
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [line.strip().removeprefix("export ").partition("=")[0].strip() for line in present.splitlines()]
    missing = [name for name in names if name not in lines and not os.environ.get(name)]
    if not missing:
        return []
    added = "".join(f"{name}={secrets.token_hex(SECRET_BYTES)}\n" for name in missing)
    joint = "" if not present or present.endswith("\n") else "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8") as file:
        file.write(joint + added)
        file.flush()
        os.fsync(file.fileno())
    click.echo(f"wrote {', '.join(missing)} into {path} (keep it out of version control)", err=True)
    return missing


def _greet(serving: Any) -> None:
    """Says where the Worker is served, where data lies, and which buckets are local."""
    host = serving.host
    out = sys.stderr
    if not host.workers:
        print(f"requests to {serving.url} are answered with the fault until it is mended", file=out)
    for number, worker in enumerate(host.workers):
        config = worker.config
        where = f"on {serving.url}" if number == 0 else "for the other Workers of this process"
        print(f"{config.name} is served {where}", file=out)
        print(f"  configuration {config.path or 'none'}", file=out)
        for name, namespace in worker.own.items():
            print(f"  objects of {name}: {namespace.folder}", file=out)
        for bucket in config.r2_buckets:
            kind = host.settings.r2
            place = f"file {host.settings.state / 'r2' / bucket.storage_name}" if kind == "file" else kind
            local = "remote" if kind == "s3" else "local"
            print(f"  bucket {bucket.binding} ({bucket.storage_name}): {local}, {place}", file=out)
        for line in host.wiring.described(worker) if host.wiring is not None else ():
            print(f"  {line}", file=out)
        for cron in config.crons:
            print(f"  cron {cron}", file=out)
    if serving.admin_url:
        print(f"  metrics and readiness on {serving.admin_url}", file=out)
    print(f"  SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]}", file=out)
    if not host.settings.durable:
        print("  NOT DURABLE: answered writes are lost in a power cut", file=out)
    if host.settings.test_hooks:
        print("  test hooks are on: /__test/clock and /__test/store", file=out)
    out.flush()
