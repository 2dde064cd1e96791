"""`moorage jobs`: the verbs of the queue (spec job-lifecycle 6)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .options import JobsGroup, Opened, environment_of, instant, show_json, table, verb, where


@click.group(cls=JobsGroup)
@where
def command() -> None:
    """A queue of prompts that outside agents process.

    `init` and `scan` prepare a folder, `submit` queues work, an agent takes it with `claim` and answers with
    `record`.
    """


def _integer(name: str, text: str | None) -> int | None:
    from moorage.protocols.jobs.settings import parse_integer

    return None if text is None else parse_integer(name, text)


@command.command("submit")
@click.argument("extension")
@click.option("-n", "--node", metavar="PATH", help="The target.")
@click.option("--all", "every", is_flag=True, help="Every target that meets the precondition.")
@click.option("--force", is_flag=True, help="Skip the duplicate check.")
@click.option("--ttl", metavar="SECONDS", help="Let a claim expire after that long; 0 never.")
@click.option("--priority", metavar="N", help="Higher runs first.")
@click.option("--auto-fix", is_flag=True, help="Queue the finder's fixers when it completes.")
@click.option("--finding", "findings", multiple=True, metavar="ID", help="Only these findings (fixers).")
@verb
@click.pass_context
def submit(
    ctx: click.Context,
    extension: str,
    node: str | None,
    every: bool,
    force: bool,
    ttl: str | None,
    priority: str | None,
    auto_fix: bool,
    findings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Queue a job for EXTENSION; prints its id."""
    from moorage.protocols.jobs.errors import Refused
    from moorage.protocols.jobs.settings import parse_positive

    with Opened(ctx) as (env, backend):
        if node is not None and every:
            raise Refused("usage", "give -n or --all, not both")
        body: dict[str, Any] = {
            "extension": extension,
            "node": node,
            "all": every,
            "force": force,
            "ttl": _integer("--ttl", ttl),
            "priority": _integer("--priority", priority),
            "autoFix": auto_fix,
            "findingIds": [parse_positive("--finding", text) for text in findings] or None,
        }
        if extension.startswith("skill:"):
            raise Refused("not-found", "skill actions are submitted over HTTP, not on the command line")
        try:
            answer = backend.call("submit", body)
        except Refused as error:
            if as_json and "existingId" in error.detail:
                show_json(env, error.detail)
            raise
        if not as_json:
            for line in answer["advisories"]:
                env.err(line)
        if "job" in answer:
            if as_json:
                show_json(env, answer["job"])
            else:
                for old in answer["supersededIds"]:
                    env.err(f"supersedes {old}")
                env.out(answer["job"]["id"])
            return
        if as_json:
            show_json(env, {key: answer[key] for key in ("submitted", "refused", "counts")})
            return
        for item in answer["submitted"]:
            env.out(item["id"])
        for item in answer["refused"]:
            env.err(
                f"{item['nodeId']}: {item['reason']} {item.get('existingId') or item.get('detail') or ''}".rstrip()
            )
        counts = answer["counts"]
        env.err(f"{counts['submitted']} of {counts['total']} submitted, {counts['refused']} refused")


@command.command("claim")
@click.option("--filter", "name", metavar="EXT", help="Only jobs of this extension.")
@click.option("--wait", is_flag=True, help="Block until there is a job.")
@click.option("--interval", metavar="SECONDS", help="Pause between two looks, with --wait.")
@click.option("--timeout", metavar="SECONDS", help="Give up after that long, with --wait.")
@verb
@click.pass_context
def claim(
    ctx: click.Context, name: str | None, wait: bool, interval: str | None, timeout: str | None, as_json: bool
) -> None:
    """Take the next job; prints its id, or with --json id, nonce and content. Exit status 1: nothing to claim."""
    from moorage.protocols.jobs.settings import parse_positive

    with Opened(ctx) as (env, backend):
        if wait:
            pause = None if interval is None else parse_positive("--interval", interval)
            limit = None if timeout is None else parse_positive("--timeout", timeout)
            job = backend.claim_wait(name, pause, limit)["job"]
        else:
            job = backend.call("claim", {"filter": name})["job"]
        if job is None:
            ctx.exit(1)
        if as_json:
            show_json(env, job)
        else:
            env.out(job["id"])


@command.command("record")
@click.option("--id", "identifier", required=True, metavar="ID", help="The job.")
@click.option("--nonce", required=True, help="The nonce of its claim.")
@click.option("--status", required=True, metavar="completed|failed", help="How it went.")
@click.option("--report", metavar="PATH|-", help="The report, a file or standard input.")
@click.option("--tokens-in", metavar="N", help="Tokens that the run read.")
@click.option("--tokens-out", metavar="N", help="Tokens that the run wrote.")
@click.option("--duration-ms", metavar="N", help="How long the run took.")
@click.option("--model", metavar="NAME", help="The model that answered.")
@click.option("--error", metavar="TEXT", help="What went wrong, with --status failed.")
@verb
@click.pass_context
def record(
    ctx: click.Context,
    identifier: str,
    nonce: str,
    status: str,
    report: str | None,
    tokens_in: str | None,
    tokens_out: str | None,
    duration_ms: str | None,
    model: str | None,
    error: str | None,
    as_json: bool,
) -> None:
    """Close a claimed job. With --json the run's events, one a line."""
    from moorage.protocols.jobs.errors import Refused
    from moorage.protocols.jobs.settings import parse_count

    if status not in ("completed", "failed"):
        raise Refused("usage", f"--status must be completed or failed, not {status!r}")
    if status == "completed" and report is None:
        raise Refused("usage", "--status completed needs --report PATH, or - for standard input")
    metrics = {
        key: None if text is None else parse_count(flag, text)
        for key, flag, text in (
            ("tokensIn", "--tokens-in", tokens_in),
            ("tokensOut", "--tokens-out", tokens_out),
            ("durationMs", "--duration-ms", duration_ms),
        )
    }
    body = {"id": identifier, "nonce": nonce, "status": status, **metrics, "model": model, "error": error}
    with Opened(ctx) as (env, backend):

        def read_text() -> str:
            if report == "-":
                return env.stdin()
            try:
                return (env.working / str(report)).read_bytes().decode("utf-8", "surrogateescape")
            except OSError as failure:
                raise Refused("report-unreadable", f"--report {report}: {failure.strerror or failure}") from failure

        answer = backend.record(body, read_text)
        if as_json:
            for event in answer["events"]:
                show_json(env, event)
        else:
            env.out(f"{identifier} {status}, execution {answer['executionId']}")


@command.command("list")
@click.option("--status", metavar="STATE", help="Only jobs in this state.")
@click.option("--extension", metavar="EXT", help="Only of this extension.")
@click.option("--node", "-n", metavar="PATH", help="Only of this target.")
@verb
@click.pass_context
def list_jobs(ctx: click.Context, status: str | None, extension: str | None, node: str | None, as_json: bool) -> None:
    """Jobs, newest first."""
    with Opened(ctx) as (env, backend):
        jobs = backend.call("list", {"status": status, "extension": extension, "node": node})["jobs"]
        if as_json:
            show_json(env, jobs)
            return
        rows = [{**job, "created": instant(job["createdAt"])} for job in jobs]
        columns = [("ID", "id"), ("STATUS", "status"), ("REASON", "failureReason"), ("EXTENSION", "extensionId")]
        for line in table(rows, [*columns, ("TARGET", "nodeId"), ("PRIORITY", "priority"), ("CREATED", "created")]):
            env.out(line)


@command.command("show")
@click.argument("identifier", metavar="ID")
@verb
@click.pass_context
def show(ctx: click.Context, identifier: str, as_json: bool) -> None:
    """One job."""
    with Opened(ctx) as (env, backend):
        job = backend.call("show", {"id": identifier})
        if as_json:
            show_json(env, job)
            return
        for key, value in job.items():
            shown = instant(value) if key.endswith("At") else value
            env.out(f"{key}: {'' if shown is None else shown}")


@command.command("preview")
@click.argument("identifier", metavar="[ID]", required=False)
@click.option("--last", is_flag=True, help="The newest job.")
@verb
@click.pass_context
def preview(ctx: click.Context, identifier: str | None, last: bool, as_json: bool) -> None:
    """The content that a job hands out."""
    from moorage.protocols.jobs.errors import Refused

    with Opened(ctx) as (env, backend):
        if (identifier is None) != last:
            raise Refused("usage", "preview takes a job id or --last, one of them")
        answer = backend.call("preview", {"id": identifier})
        if as_json:
            show_json(env, answer)
        else:
            env.out(answer["content"])


@command.command("status")
@click.argument("identifier", metavar="[ID]", required=False)
@verb
@click.pass_context
def status_of(ctx: click.Context, identifier: str | None, as_json: bool) -> None:
    """How many jobs are in each state, or the state of one."""
    with Opened(ctx) as (env, backend):
        answer = backend.call("status", {"id": identifier})
        if as_json:
            show_json(env, answer)
        elif identifier is not None:
            env.out(" ".join(filter(None, (answer["status"], answer["failureReason"]))))
        else:
            for state, count in answer.items():
                env.out(f"{state:<10} {count}")


def _close(name: str, word: str, help_text: str) -> None:
    @command.command(name, help=help_text)
    @click.argument("identifier", metavar="[ID]", required=False)
    @click.option("--all", "every", is_flag=True, help="Every queued and running job.")
    @verb
    @click.pass_context
    def close(ctx: click.Context, identifier: str | None, every: bool, as_json: bool) -> None:
        with Opened(ctx) as (env, backend):
            answer = backend.call(name, {"id": identifier, "all": every})
            if as_json:
                show_json(env, answer)
            else:
                env.out(f"{answer[word]} {word}" if every else f"{identifier} {word}")


_close("cancel", "cancelled", "Cancel a job, or with --all every queued and running one.")
_close("fail", "failed", "Mark a job as failed, or with --all every queued and running one.")


@command.command("prune")
@click.option("-n", "--dry-run", is_flag=True, help="Count, and change nothing.")
@verb
@click.pass_context
def prune(ctx: click.Context, dry_run: bool, as_json: bool) -> None:
    """Delete finished jobs past their retention, and contents without a job."""
    with Opened(ctx) as (env, backend):
        answer = backend.call("prune", {"dryRun": dry_run})
        if as_json:
            show_json(env, answer)
            return
        for state, found in answer["retention"].items():
            kept = "for ever" if found["policySeconds"] is None else f"{found['policySeconds']} s"
            env.out(f"{state:<10} {'would delete' if dry_run else 'deleted'} {found['deleted']} (kept {kept})")
        env.out(f"contents   {'not counted' if dry_run else answer['prunedContents']}")


@command.command("history")
@click.option("--node", "-n", metavar="PATH", help="Only of this target.")
@click.option("--extension", metavar="EXT", help="Only of this extension.")
@click.option("--limit", metavar="N", help="At most so many.")
@click.option("--report", "with_report", is_flag=True, help="Add each report.")
@verb
@click.pass_context
def history(
    ctx: click.Context, node: str | None, extension: str | None, limit: str | None, with_report: bool, as_json: bool
) -> None:
    """What was recorded, newest first."""
    from moorage.protocols.jobs.settings import parse_positive

    with Opened(ctx) as (env, backend):
        count = None if limit is None else parse_positive("--limit", limit)
        body = {"node": node, "extension": extension, "limit": count, "report": with_report}
        found = backend.call("history", body)["executions"]
        if as_json:
            show_json(env, found)
            return
        rows = [{**e, "at": instant(e["finishedAt"]), "node": ", ".join(e["nodeIds"])} for e in found]
        columns = [("ID", "id"), ("STATUS", "status"), ("REASON", "failureReason"), ("EXTENSION", "extensionId")]
        for line in table(rows, [*columns, ("TARGET", "node"), ("MODEL", "model"), ("FINISHED", "at")]):
            env.out(line)


@command.command("doctor")
@verb
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check the queue; changes nothing. Exit status 2 on an error, 1 on a warning."""
    with Opened(ctx) as (env, backend):
        answer = backend.call("doctor", {})
        status = answer.pop("exit")
        if as_json:
            show_json(env, answer)
        else:
            for check in answer["jobChecks"]:
                env.out(f"{check['status']:<5} {check['id']} {check.get('message', '')}".rstrip())
        ctx.exit(status)


@command.command("events")
@click.option("--after", metavar="N", help="Only events past this number [0].")
@click.option("--follow", is_flag=True, help="Go on as they come, from now on without --after.")
@verb
@click.pass_context
def events(ctx: click.Context, after: str | None, follow: bool, as_json: bool) -> None:
    """The event stream, one event a line."""
    from moorage.protocols.jobs.settings import parse_count

    with Opened(ctx) as (env, backend):
        start = (None if follow else 0) if after is None else parse_count("--after", after)
        for number, event in backend.events(start, follow):
            if as_json:
                show_json(env, {"seq": number, **event})
            else:
                env.out(f"{number} {instant(event['timestamp'])} {event['type']} {event['jobId'] or event['runId']}")


@command.command("init")
@verb
@click.pass_context
def init(ctx: click.Context, as_json: bool) -> None:
    """Make an empty queue in the folder and look at its files."""
    _scan(ctx, as_json)


@command.command("scan")
@verb
@click.pass_context
def scan(ctx: click.Context, as_json: bool) -> None:
    """Look at the files again; makes the queue when there is none."""
    _scan(ctx, as_json)


def _scan(ctx: click.Context, as_json: bool) -> None:
    env = environment_of(ctx)
    with env.local(create=True) as queue:
        found = queue.scan()
    if as_json:
        show_json(env, {"targets": found.targets, "problems": list(found.problems)})
        return
    for problem in found.problems:
        env.err(problem)
    env.out(f"{found.targets} targets")


@command.command("extensions")
@verb
@click.pass_context
def extensions(ctx: click.Context, as_json: bool) -> None:
    """What is installed, and what is wrong with it."""
    with Opened(ctx) as (env, backend):
        found = backend.call("extensions", {})["extensions"]
        if as_json:
            show_json(env, found)
            return
        columns = [("ID", "id"), ("KIND", "kind"), ("VERSION", "version"), ("MODE", "mode"), ("ENABLED", "enabled")]
        for line in table(found, [*columns, ("PROBLEM", "problem")]):
            env.out(line)


@command.command("push")
@verb
@click.pass_context
def push(ctx: click.Context, as_json: bool) -> None:
    """Bring the folder's extensions, skills, settings, agent and targets to the shared queue of --remote."""
    from moorage.protocols.jobs.errors import Refused

    from .folder import JobsFolder

    env = environment_of(ctx)
    if env.remote is None:
        raise Refused("usage", "push needs --remote URL")
    remote = env.shared()
    try:
        folder = JobsFolder(Path(env.root))
        stream = env.stderr or sys.stderr
        if stream.isatty():
            with click.progressbar(length=1, label="targets", file=stream) as bar:

                def progress(done: int, every: int) -> None:
                    bar.length = max(every, 1)
                    bar.update(done - bar.pos)

                answer = remote.push(folder, progress)
        else:
            answer = remote.push(folder)
    finally:
        remote.close()
    if as_json:
        show_json(env, answer)
        return
    for problem in answer["problems"]:
        env.err(problem)
    env.out(f"{answer['extensions']} extensions, {answer['skills']} skills, {answer['targets']} targets")


def _register() -> None:
    from .cli_groups import agent, findings, plugins

    for group in (findings, plugins, agent):
        command.add_command(group)


_register()
