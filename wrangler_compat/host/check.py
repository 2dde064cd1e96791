"""`moorage check`: validates a configuration and says what its migrations would do."""

import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..config import Loaded, Plan, Report, VariablesError, WorkerConfig, load, resolve_variables
from ..config.diagnostics import Severity
from .migrate import MigrationError, pending


@click.command("check")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option("--env", "environment", metavar="NAME", help="Environment of the configuration (else CLOUDFLARE_ENV).")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Configuration file; ends the search."
)
@click.option(
    "--state", type=click.Path(path_type=Path), metavar="FOLDER", help="Say what migrations would do to it."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(folder: Path, environment: str | None, config: Path | None, state: Path | None, as_json: bool) -> None:
    """Validate the wrangler configuration of DIR: every error and every warning, with its path.

    The status is 1 when there are errors, or when the state folder refuses the migrations.
    """
    if not folder.is_dir():
        raise click.BadParameter(f"there is no folder {folder}", param_hint="DIR")
    loaded = load(folder, config=config, environment=environment)
    planned: Plan | None = None
    if loaded.config is not None:
        _look_at_files(loaded.config, loaded.report)
        planned = _plan(loaded, state)
    ok = not loaded.report.all_errors
    if as_json:
        click.echo(json.dumps(_document(loaded, planned), indent=2, ensure_ascii=False))
    else:
        _print(loaded, planned, state)
    raise SystemExit(0 if ok else 1)


def _look_at_files(config: WorkerConfig, report: Report) -> None:
    """What the platform finds out when it builds or starts: files that are not there, secrets that nothing sets."""
    if config.path is None:
        report.error(
            "no-such-file", None, "there is no wrangler.json, wrangler.jsonc or wrangler.toml here or above."
        )
        return
    if config.main is not None and not config.main.is_file():
        report.error("no-such-file", "main", f'"main" is {config.main}, which is not there.')
    if config.assets and config.assets.directory and not config.assets.directory.is_dir():
        report.error(
            "no-such-file", "assets.directory", f'"assets.directory" is {config.assets.directory}: no folder.'
        )
    try:
        variables = resolve_variables(config, os.environ, mode="serve")
    except VariablesError as error:
        report.error("variables", None, f"{error}.")
        return
    for name in variables.missing_secrets:
        report.warn(
            "missing-secret", f"secrets.required:{name}", f'the secret "{name}" is required, but set nowhere.'
        )
    for binding in config.unsupported:
        report.warn(
            "unsupported-binding",
            f"{binding.kind}:{binding.name}",
            f'"{binding.name}" ({binding.kind}) has no local implementation: `moorage dev` and `serve` refuse it.',
        )
    _look_at_triggers(config, report)
    for path, advice in unserved(config):
        report.warn("not-served", path, f'"{path}" {advice}.')


def _look_at_triggers(config: WorkerConfig, report: Report) -> None:
    """What the platform says when they are deployed, and a start here: times and bounds that cannot be."""
    if config.crons:
        from .crons import CronError, parse

        for index, cron in enumerate(config.crons):
            try:
                parse(cron, datetime.datetime.now(datetime.UTC))
            except CronError as error:
                report.error("bad-cron", f"triggers.crons[{index}]", f"{error}.")
    if config.queue_consumers:
        from .queues.rules import settings_of
        from .values import BindingError

        for index, consumer in enumerate(config.queue_consumers):
            try:
                settings_of(consumer)
            except BindingError as error:
                report.error("bad-consumer", f"queues.consumers[{index}]", f"{error}.")


def unserved(config: WorkerConfig) -> Iterator[tuple[str, str]]:
    """Keys of the configuration that the platform's tool obeys locally and this host does not, and what to do."""
    build, site = config.document.get("build"), config.document.get("site")
    if isinstance(build, dict) and build.get("command"):
        yield "build.command", "is not run here: run it yourself before the Worker is loaded"
    if isinstance(site, dict):
        yield "site", 'is not served here: use "assets"'


def _plan(loaded: Loaded, state: Path | None) -> Plan | None:
    if state is None or loaded.config is None:
        return None
    try:
        planned = pending(state, loaded.config)
    except MigrationError as error:
        loaded.report.error(error.diagnostic.code, error.diagnostic.path, error.diagnostic.message)
        return None
    for warning in planned.warnings:
        loaded.report.warn(warning.code, warning.path, f"{warning.message}.")
    if planned.refusal is not None:
        refusal = planned.refusal
        loaded.report.error(refusal.code, refusal.path, f"{refusal.message}.")
    return planned


def _print(loaded: Loaded, planned: Plan | None, state: Path | None) -> None:
    report, config = loaded.report, loaded.config
    for severity, label, colour in (("errors", "Errors", "red"), ("warnings", "Warnings", "yellow")):
        text = report.render("errors" if severity == "errors" else "warnings")
        if text:
            click.echo(f"{click.style(label, fg=colour, bold=True)} in {text}\n")
    if config is not None and not report.all_errors:
        where = config.path or "no configuration file"
        environment = f", environment {config.environment}" if config.environment else ""
        click.echo(f"{config.name}: {where}{environment}: no errors")
        for known in config.classes:
            click.echo(f"  class {known.name}: {known.storage}{'' if known.declared else ', not declared'}")
    if planned is not None and planned.refusal is None:
        click.echo(f"Migrations of {state}:")
        for operation in planned.operations:
            click.echo(f"  {operation.describe()}")
        if not planned.operations:
            click.echo("  nothing to do")


def _document(loaded: Loaded, planned: Plan | None) -> dict[str, Any]:
    config = loaded.config
    return {
        "ok": not loaded.report.all_errors,
        "file": str(config.path) if config is not None and config.path else None,
        "name": config.name if config is not None else None,
        "environment": config.environment if config is not None else None,
        "errors": _diagnostics(loaded.report, "errors"),
        "warnings": _diagnostics(loaded.report, "warnings"),
        "classes": [
            {"name": c.name, "storage": c.storage, "declared": c.declared, "unique_key": c.unique_key}
            for c in (config.classes if config is not None else ())
        ],
        "migrations": None
        if planned is None
        else [
            {"operation": type(o).__name__.lower(), **{name: getattr(o, name) for name in o.__slots__}}
            for o in planned.operations
        ],
    }


def _diagnostics(report: Report, severity: Severity) -> list[dict[str, Any]]:
    return [
        {"code": found.code, "path": found.path, "message": found.message, "in": list(headings)}
        for headings, found in report.walk(severity)
    ]
