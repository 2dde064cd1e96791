"""Cron triggers by hand, rate limits, version metadata, and kinds that are refused."""

import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from moorage.durable_objects.runtime.testing import ManualClock
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.triggers import command
from moorage.wrangler_compat.host.values import BindingError
from tests.support.serving import ServedProcess
from tests.support.workers_in_process import host_of, lay

ENTRY = """
    from workers import Response, WorkerEntrypoint

    ran = []

    class Default(WorkerEntrypoint):
        async def fetch(self):
            return Response.json(ran)

        async def scheduled(self, controller, env, ctx):
            if controller.cron == "fail":
                raise ValueError("a secret of the Worker")
            ran.append([controller.cron, controller.scheduledTime])
"""
CRONS = '[triggers]\ncrons = ["0 3 * * *"]\n'


@pytest.mark.parametrize("path", ["/cdn-cgi/local/scheduled", "/cdn-cgi/handler/scheduled"])
async def test_the_platforms_address_in_dev(tmp_path: Path, path: str) -> None:
    serving = Serving(host_of(tmp_path / "state", lay(tmp_path / "w", ENTRY, CRONS), clock=ManualClock(1000)))
    await serving.start()
    async with httpx.AsyncClient(base_url=serving.url) as client:
        got = await client.get(path, params={"cron": "*/5 * * * *", "time": 7000})
        assert (got.status_code, got.text) == (200, "ok")
        assert (await client.get(path)).text == "ok"
        failed = await client.get(path, params={"cron": "fail"})
        assert (failed.status_code, failed.text) == (500, "exception")
        assert (await client.get(path, params={"time": "x"})).status_code == 400
        assert "there are: w" in (await client.get(path, params={"worker": "none"})).text
        assert (await client.get("/")).json() == [["*/5 * * * *", 7000], ["0 3 * * *", 1000]]
    await serving.stop()


async def test_in_production_only_the_admin_port_has_it(tmp_path: Path) -> None:
    folder = lay(tmp_path / "w", ENTRY, CRONS)
    serving = Serving(host_of(tmp_path / "state", folder, mode="serve", admin_port=0))
    await serving.start()
    async with httpx.AsyncClient() as client:
        path = "/cdn-cgi/local/scheduled?time=1"
        assert (await client.get(serving.url + path)).json() == [], "the Worker answered"
        assert (await client.post(f"{serving.admin_url}/trigger/scheduled?time=5")).text == "ok"
        assert (await client.get(f"{serving.admin_url}/trigger/scheduled?time=5")).status_code == 404
        assert (await client.get(serving.url)).json() == [["0 3 * * *", 5]]
    await serving.stop()


def test_the_command(tmp_path: Path) -> None:
    folder = lay(tmp_path / "w", ENTRY, CRONS)
    served = ServedProcess(folder, command="dev", ready="/").wait()
    try:

        def run(*arguments: str) -> Any:
            return CliRunner().invoke(command, ["cron", *arguments])

        done = run("--url", served.url, "--time", "5")
        assert (done.exit_code, done.output) == (0, "ok\n")
        done = run("1 2 3 4 5", "--url", served.url, "--time", "6", "--json")
        assert done.output == '{"outcome": "ok", "status": 200}\n'
        failed = run("fail", "--url", served.url)
        assert failed.exit_code == 1
        assert "the handler raised an exception" in failed.output
        assert "secret" not in failed.output
        other = run("--url", served.url, "--worker", "none")
        assert "there is no Worker 'none'; there are: w" in other.output
        assert httpx.get(served.url).json() == [["0 3 * * *", 5], ["1 2 3 4 5", 6]]
    finally:
        served.stop()
    gone = CliRunner().invoke(command, ["cron", "--url", served.url])
    assert gone.exit_code == 1
    assert "does not answer" in gone.output


async def test_rate_limits_and_the_version(tmp_path: Path) -> None:
    config = """
        [version_metadata]
        binding = "VERSION"
        [[ratelimits]]
        name = "LIMITER"
        namespace_id = "1"
        simple = { limit = 2, period = 60 }
        [[ratelimits]]
        name = "SAME"
        namespace_id = "1"
        simple = { limit = 3, period = 60 }
    """
    clock = ManualClock(1_700_000_040_000)
    host = host_of(tmp_path / "state", lay(tmp_path / "w", ENTRY, config), clock=clock)
    await host.start()
    env = host.workers[0].env
    assert [(await env.LIMITER.limit({"key": "a"})).success for _ in range(3)] == [True, True, False]
    assert (await env.LIMITER.limit(key="b")).success is True
    assert (await env.SAME.limit(key="a")).success is False, "one namespace counts together"
    await clock.advance(60_000)
    assert (await env.LIMITER.limit({"key": "a"})).success is True
    with pytest.raises(TypeError, match="what is counted"):
        await env.LIMITER.limit({})
    assert str(uuid.UUID(env.VERSION.id)) == env.VERSION["id"]
    assert (env.VERSION.tag, env.VERSION.timestamp) == ("", "2023-11-14T22:14:00.000Z")
    before = env.VERSION.id
    await host.reload()
    assert host.workers[0].env.VERSION.id == before
    lay(tmp_path / "w", ENTRY + "    # another version\n", config)
    await host.reload()
    assert host.workers[0].env.VERSION.id != before
    await host.close()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ('[ai]\nbinding = "AI"', r"AI \(ai\)"),
        ('[[vectorize]]\nbinding = "V"\nindex_name = "i"', r"V \(vectorize\)"),
        ('[[workflows]]\nbinding = "WF"\nname = "w"\nclass_name = "W"', r"WF \(workflows\)"),
    ],
)
async def test_kinds_that_cannot_be_served_are_named_at_the_start(tmp_path: Path, config: str, text: str) -> None:
    host = host_of(tmp_path / "state", lay(tmp_path / "w", ENTRY, config))
    with pytest.raises(BindingError, match=rf"bindings that cannot be served here: {text}"):
        await host.start()
    await host.close()
