"""`moorage jobs findings`, `plugins` and `agent`."""

from __future__ import annotations

from typing import Any

import click

from .options import Opened, VerbCommand, confirm, environment_of, instant, show_json, table, verb


class VerbGroup(click.Group):
    """A group whose commands read their numbers as the other verbs do."""

    command_class = VerbCommand


def _since(text: str | None) -> int | None:
    """Milliseconds of a time: digits as they are, or a date or time in ISO 8601, UTC where it says no zone."""
    from datetime import UTC, datetime

    from moorage.protocols.jobs.errors import Refused

    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refused("usage", f"--since must be a date such as 2026-11-30, or milliseconds, not {text!r}") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _threshold(text: str | None) -> float | None:
    from moorage.protocols.jobs.errors import Refused

    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise Refused("usage", f"--threshold must be a number from 0 to 1, not {text!r}")
    return value


@click.group(cls=VerbGroup, invoke_without_command=True)
@click.option("--node", "-n", metavar="PATH", help="Only of this target.")
@click.option("--extension", metavar="EXT", help="Only of this extension.")
@click.option("--type", "kind", metavar="TYPE", help="Only of this type.")
@click.option("--severity", metavar="info|warn|error", help="Only of this severity.")
@click.option("--since", metavar="WHEN", help="Generated then or later: a date, or milliseconds.")
@click.option("--threshold", metavar="X", help="At least this confident, from 0 to 1.")
@click.option("--stale", "bucket", flag_value="stale", help="Only those on an earlier body.")
@click.option("--fixed", "bucket", flag_value="fixed", help="Only fixed ones.")
@click.option("--dismissed", "bucket", flag_value="dismissed", help="Only dismissed ones.")
@verb
@click.pass_context
def findings(
    ctx: click.Context,
    node: str | None,
    extension: str | None,
    kind: str | None,
    severity: str | None,
    since: str | None,
    threshold: str | None,
    bucket: str | None,
    as_json: bool,
) -> None:
    """Judgments about targets: open ones, and those that wait for a human."""
    if ctx.invoked_subcommand is not None:
        return
    with Opened(ctx) as (env, backend):
        body = {
            "node": node,
            "extension": extension,
            "type": kind,
            "severity": severity,
            "since": _since(since),
            "threshold": _threshold(threshold),
            "bucket": bucket or "default",
        }
        answer = backend.call("findings", body)
        if as_json:
            show_json(env, answer)
            return
        rows = [
            {**f, "state": f["resolution"] or "open", "old": "stale" if f["stale"] else ""}
            for f in answer["findings"]
        ]
        columns = [("ID", "id"), ("SEVERITY", "severity"), ("TYPE", "type"), ("STATE", "state"), ("", "old")]
        for line in table(rows, [*columns, ("TARGET", "nodeId"), ("MESSAGE", "message")]):
            env.out(line)
        hidden = f"{answer['dismissedExcluded']} dismissed and {answer['fixedExcluded']} fixed are not shown"
        if answer["dismissedExcluded"] or answer["fixedExcluded"]:
            env.err(hidden)


def _finding_id(text: str) -> int:
    from moorage.protocols.jobs.settings import parse_positive

    return parse_positive("the id of a finding", text)


def _change(name: str, help_text: str, *, noted: bool, wrapped: bool) -> None:
    @findings.command(name, help=help_text)
    @click.argument("identifier", metavar="ID")
    @verb
    @click.pass_context
    def change(ctx: click.Context, identifier: str, as_json: bool, note: str | None = None) -> None:
        with Opened(ctx) as (env, backend):
            finding = backend.call(name, {"id": _finding_id(identifier), "note": note})
            if as_json:
                show_json(env, {"ok": True, "kind": "finding", "finding": finding} if wrapped else finding)
            else:
                when = instant(finding["resolutionAt"])
                env.out(f"finding {identifier}: {finding['resolution'] or 'open'} {when}".rstrip())

    if noted:
        change.params.append(click.Option(["--note"], metavar="TEXT", help="Why."))


_change("resolve", "Mark a finding as fixed by hand.", noted=True, wrapped=True)
_change("dismiss", "Dismiss one finding.", noted=True, wrapped=False)
_change("reopen", "Open a finding again.", noted=False, wrapped=False)


def _deleted(env: Any, answer: dict[str, int], dry_run: bool, as_json: bool) -> None:
    if as_json:
        show_json(env, answer)
    else:
        env.out(f"would delete {answer['wouldDelete']}" if dry_run else f"deleted {answer['deleted']}")


@findings.command("prune")
@click.option("--dry-run", is_flag=True, help="Count, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@verb
@click.pass_context
def prune_findings(ctx: click.Context, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete stale findings."""
    with Opened(ctx) as (env, backend):
        if not dry_run:
            confirm(env, "Delete every stale finding?", yes)
        _deleted(env, backend.call("findings-prune", {"dryRun": dry_run}), dry_run, as_json)


@findings.command("clear")
@click.option("--node", "-n", metavar="PATH", help="The findings of one target.")
@click.option("--all", "every", is_flag=True, help="All findings.")
@click.option("--dry-run", is_flag=True, help="Count, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@verb
@click.pass_context
def clear_findings(
    ctx: click.Context, node: str | None, every: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Delete the findings of a target, or all."""
    from moorage.protocols.jobs.errors import Refused

    with Opened(ctx) as (env, backend):
        if (node is None) != every:
            raise Refused("usage", "findings clear takes -n PATH or --all, one of them")
        if not dry_run:
            confirm(env, f"Delete {'all findings' if every else f'every finding of {node}'}?", yes)
        answer = backend.call("findings-clear", {"node": node, "all": every, "dryRun": dry_run})
        _deleted(env, answer, dry_run, as_json)


@click.group(cls=VerbGroup)
def plugins() -> None:
    """Turn extensions, or whole plugins, off and on."""


def _toggle(name: str, help_text: str) -> None:
    @plugins.command(name, help=help_text)
    @click.argument("key", metavar="EXTENSION|PLUGIN")
    @click.option("--yes", is_flag=True, help="Do not ask about a whole plugin.")
    @verb
    @click.pass_context
    def toggle(ctx: click.Context, key: str, yes: bool, as_json: bool) -> None:
        with Opened(ctx) as (env, backend):
            if "/" not in key:
                confirm(env, f"{name.capitalize()} every extension of {key}?", yes)
            answer = backend.call(name, {"key": key})
            if as_json:
                show_json(env, answer)
                return
            cancelled = len(answer.get("cancelledIds", ()))
            env.out(f"{key} {name}d" + (f", {cancelled} queued jobs cancelled" if cancelled else ""))


_toggle("disable", "Turn it off; its queued jobs are cancelled, running ones go on.")
_toggle("enable", "Turn it on again; cancelled jobs stay cancelled.")


@click.group(cls=VerbGroup)
def agent() -> None:
    """The processing agent's instructions in this folder."""


@agent.command("install")
@verb
@click.pass_context
def install_agent(ctx: click.Context, as_json: bool) -> None:
    """Write, or renew, the instructions that an agent follows to process the queue."""
    from .folder import JobsFolder
    from .presence import FilePresence

    env = environment_of(ctx)
    folder = JobsFolder(env.root)
    FilePresence(folder).install()
    if as_json:
        show_json(env, {"path": str(folder.agent_file), "state": "present"})
    else:
        env.out(str(folder.agent_file))


@agent.command("status")
@verb
@click.pass_context
def agent_status(ctx: click.Context, as_json: bool) -> None:
    """absent, stale or present. Exit status 1 when it is absent."""
    from .folder import JobsFolder
    from .presence import FilePresence

    env = environment_of(ctx)
    state = FilePresence(JobsFolder(env.root)).state()
    if as_json:
        show_json(env, {"state": state})
    else:
        env.out(state)
    ctx.exit(1 if state == "absent" else 0)
