"""Events by hand: a cron trigger of a running server, over HTTP and as `moorage trigger cron`.

`moorage dev` has the platform's own address, `/cdn-cgi/local/scheduled?cron=…&time=…` (older spelling
`/cdn-cgi/handler/scheduled`); the admin port has `POST /trigger/scheduled` with the same query, in production too.
"""

import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlencode

import click

if TYPE_CHECKING:
    from .host import Host

LOCAL: Final = frozenset({"/cdn-cgi/local/scheduled", "/cdn-cgi/handler/scheduled"})
ADMIN: Final = "/trigger/scheduled"
OURS: Final = "moorage-trigger"
"""A field of every answer of `answer`, which tells it from one of the Worker."""
_TIMEOUT: Final = 960.0
"""Seconds to wait for a run, which may take 900."""

_log = logging.getLogger("moorage.host.triggers")


async def scheduled(host: "Host", query: bytes) -> tuple[int, str]:
    """Runs `scheduled` of a Worker and returns a status and a text: 200 `ok`, 500 `exception`.

    `query` has `cron` (else the Worker's only expression), `time` in milliseconds since 1970 (else now), and `worker`
    (else the first one). 400 for a wrong time, 404 for an unknown Worker or one without the handler.
    """
    given = {name: values[-1] for name, values in parse_qs(query.decode("latin-1"), keep_blank_values=True).items()}
    name = given.get("worker")
    worker = next((each for each in host.workers if name is None or each.config.name == name), None)
    if worker is None:
        known = ", ".join(each.config.name for each in host.workers) or "none"
        return 404, f"there is no Worker {name!r}; there are: {known}"
    if not worker.found.handles("scheduled"):
        return 404, f"{worker.config.name} has no scheduled handler"
    crons = worker.config.crons
    cron = given.get("cron", crons[0] if len(crons) == 1 else "")
    time = given.get("time", "")
    if time and not time.isdecimal():
        return 400, f"time must be milliseconds since 1970, not {time!r}"
    from .limits import limited

    try:
        run = host.scheduled(worker, cron, int(time) if time else host.clock.now())
        await limited(run, host.clock, "scheduled()")
    except Exception:
        _log.exception("%s: scheduled() failed for cron %r", worker.config.name, cron)
        return 500, "exception"
    return 200, "ok"


async def answer(host: "Host", scope: Any, send: Any) -> None:
    """Answers a request for one of the `LOCAL` addresses."""
    status, text = await scheduled(host, scope.get("query_string", b""))
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (OURS.encode(), b"scheduled"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@click.group("trigger")
def command() -> None:
    """Run an event of a Worker by hand."""


@command.command("cron")
@click.argument("expression", required=False)
@click.option("--url", default="http://127.0.0.1:8787", show_default=True, help="where `moorage dev` serves")
@click.option("--admin", metavar="URL", help="admin port of a server (`--admin-port`), instead of --url")
@click.option("--worker", metavar="NAME", help="which Worker of the process; the first one if not given")
@click.option("--time", "moment", type=int, metavar="MS", help="time of the event, milliseconds since 1970")
@click.option("--json", "as_json", is_flag=True, help="print a JSON object")
def cron(
    expression: str | None, url: str, admin: str | None, worker: str | None, moment: int | None, as_json: bool
) -> None:
    """Run `scheduled` of a running Worker now.

    EXPRESSION is what the handler is told; without it, the only cron expression of the Worker. The command ends with
    1 when the handler raised or the server does not answer.
    """
    import json

    import httpx

    given = {"cron": expression, "worker": worker, "time": moment}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    base = (admin or url).rstrip("/")
    target = f"{base}{ADMIN if admin else '/cdn-cgi/local/scheduled'}" + (f"?{query}" if query else "")
    try:
        got = httpx.request("POST" if admin else "GET", target, timeout=_TIMEOUT)
    except httpx.InvalidURL as error:
        raise click.ClickException(f"{base!r} is no URL: {error}") from None
    except httpx.HTTPError as error:
        raise click.ClickException(f"{base} does not answer: {error}") from None
    outcome = got.text.strip()
    if as_json:
        click.echo(json.dumps({"outcome": outcome, "status": got.status_code}))
    if got.status_code == 200 and outcome == "ok":
        if not as_json:
            click.echo("ok")
        return
    if got.status_code == 500 and outcome == "exception":
        raise click.ClickException("the handler raised an exception; the server's log has it")
    hint = (
        ""
        if admin or OURS in got.headers
        else " (only `moorage dev` has this address; with `moorage serve` use --admin)"
    )
    raise click.ClickException(f"{target} answered {got.status_code}: {outcome[:200]}{hint}")
