"""Namespaces, ids, stubs, calls and state."""

import asyncio
import datetime

from refused import refused


async def check_id_from_name(env):
    first, second = env.PROBES.idFromName("a"), env.PROBES.idFromName("a")
    assert first.equals(second)
    assert first.toString() == second.toString() == str(first)
    assert len(first.toString()) == 64
    assert int(first.toString(), 16) >= 0
    assert first.name == "a"
    assert not first.equals(env.PROBES.idFromName("b"))


async def check_id_from_string(env):
    made = env.PROBES.idFromName("a")
    again = env.PROBES.idFromString(made.toString())
    assert again.equals(made)
    assert again.name is None
    for wrong in ("", "xyz", made.toString()[:-1], "0" * 64):
        refused(TypeError, lambda text=wrong: env.PROBES.idFromString(text))
    refused(TypeError, lambda: env.OTHERS.idFromString(made.toString()), "not valid for this namespace")


async def check_unique_id(env):
    made = [env.PROBES.newUniqueId() for _ in range(20)]
    assert len({str(one) for one in made}) == 20
    assert all(one.name is None for one in made)
    assert env.PROBES.idFromString(str(made[0])).equals(made[0])
    assert await env.PROBES.get(made[0]).echo(1) == 1


async def check_get_by_name(env):
    stub = env.PROBES.getByName("a")
    assert stub.id.equals(env.PROBES.idFromName("a"))
    assert stub.name == "a"
    assert env.PROBES.get(env.PROBES.newUniqueId()).name is None


async def check_jurisdiction(env):
    refused(Exception, lambda: env.PROBES.jurisdiction("eu"), "not implemented")
    refused(Exception, lambda: env.PROBES.newUniqueId({"jurisdiction": "eu"}), "not implemented")


async def check_namespace_is_no_container(env):
    assert env.PROBES
    assert env.BUCKET
    refused(TypeError, lambda: len(env.PROBES))
    refused(TypeError, lambda: iter(env.PROBES))
    refused(TypeError, lambda: len(env.BUCKET))


async def check_variables(env):
    assert env.TEXT == "plain text"
    assert env.LIMITS["items"] == 3
    assert list(env.LIMITS["tags"]) == ["a", "b"]
    assert (env.LIMITS.tags.length, env.LIMITS.to_py()["items"]) == (2, 3)


async def check_method_call(env):
    stub = env.PROBES.getByName("calls")
    assert await stub.echo("one") == "one"
    assert await stub.plain(21) == 42
    assert await stub.inherited() == "of the mixin"
    assert await stub.default("a") == ["a", "b"]
    assert await stub.default("a", "c", "d") == ["a", "c", "d"]


async def check_call_in_parallel(env):
    stubs = [env.PROBES.getByName(f"parallel-{number}") for number in range(10)]
    assert await asyncio.gather(*(stub.echo(number) for number, stub in enumerate(stubs))) == list(range(10))


async def check_values_are_copied(env):
    stub = env.PROBES.getByName("values")
    given = {"list": [1, 2.5, True, None, "ü"], "nested": {"deep": [{}]}}
    got = await stub.echo(given)
    assert got == given
    assert got is not given
    assert bytes(await stub.echo(b"\x00\xff")) == b"\x00\xff"
    assert set(await stub.echo({1, 2})) == {1, 2}
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    assert await stub.echo(moment) == moment
    assert await stub.echo(None) is None
    assert await stub.echo("a", {"b": 1}) == ["a", {"b": 1}]


async def check_results_answer_to_both_generations(env):
    got = await env.PROBES.getByName("values").echo({"name": "x", "items": [1, 2]})
    assert got["name"] == got.name == "x"
    assert got.to_py() == {"name": "x", "items": [1, 2]}
    assert type(got.to_py()) is dict
    assert got["items"].length == 2


async def check_functions_are_stubs(env):
    async def double(value):
        return value * 2

    assert await env.PROBES.getByName("calls").call(double, 4) == 8
    assert await env.PROBES.getByName("calls").call(lambda value: value + "!", "a") == "a!"


async def check_a_value_that_cannot_be_cloned(env):
    class Own:
        pass

    for value in (Own(), complex(1, 2), range(3)):
        try:
            await env.PROBES.getByName("values").echo(value)
        except Exception:
            continue
        raise AssertionError(f"{value!r} was taken")


async def check_a_missing_method(env):
    for name in ("nothing", "_hidden", "alarm"):
        try:
            await getattr(env.PROBES.getByName("calls"), name)()
        except Exception as error:
            assert name in str(error) or "RPC" in str(error), error
        else:
            raise AssertionError(f"{name} could be called")


async def check_an_exception_crosses(env):
    try:
        await env.PROBES.getByName("calls").fail("on purpose")
    except Exception as error:
        assert "on purpose" in str(error)
    else:
        raise AssertionError("nothing was raised")


async def check_fetch(env):
    stub = env.PROBES.getByName("fetched")
    answer = await stub.fetch("https://o/path?q=1", method="POST", headers={"x-test": "y"}, body="text")
    assert answer.status == 200
    assert answer.headers["x-object"] == "fetched"
    assert await answer.json() == {"method": "POST", "url": "https://o/path?q=1", "body": "text", "header": "y"}


async def check_fetch_with_a_request(env):
    from workers import Request

    request = Request("https://o/r", method="PUT", body=b"bytes", headers={"x-test": "z"})
    got = await (await env.PROBES.getByName("fetched").fetch(request)).json()
    assert (got["method"], got["body"], got["header"]) == ("PUT", "bytes", "z")


async def check_fetch_with_options(env):
    answer = await env.PROBES.getByName("fetched").fetch(
        "https://o/", {"method": "DELETE", "headers": {"x-test": "d"}}
    )
    assert (await answer.json())["method"] == "DELETE"


async def check_fetch_without_parameters(env):
    assert await (await env.OTHERS.getByName("o").fetch("https://o/")).text() == "no request"


async def check_objects_call_objects(env):
    assert await env.OTHERS.getByName("o").ask("called") == "asked by another"


async def check_block_concurrency(env):
    stub = env.PROBES.getByName("born")
    assert list(await stub.run("objects", "_born")) == ["new"]


async def _born(probe):
    assert await probe.ctx.blockConcurrencyWhile(_forty_two) == 42
    return probe.born


async def _forty_two():
    return 42


async def check_state_id(env):
    stub = env.PROBES.getByName("ids")
    assert await stub.run("objects", "_id") == [str(stub.id), "ids"]
    unique = env.PROBES.newUniqueId()
    assert await env.PROBES.get(unique).run("objects", "_id") == [str(unique), None]


async def _id(probe):
    return [probe.ctx.id.toString(), probe.ctx.id.name]


async def check_memory_lasts_between_calls(env):
    stub = env.PROBES.getByName("memory")
    for number in range(3):
        assert await stub.run("objects", "_note", number) == number + 1


async def _note(probe, number):
    probe.events.append(number)
    return len(probe.events)


async def check_wait_until(env):
    stub = env.PROBES.getByName("waits")
    await stub.run("objects", "_begin")
    for _ in range(100):
        if await stub.run("objects", "_ended"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the work was not done")


async def _begin(probe):
    async def work():
        await asyncio.sleep(0.02)
        await probe.ctx.storage.put("worked", True)

    probe.ctx.waitUntil(work())


async def _ended(probe):
    return await probe.ctx.storage.get("worked")


async def check_abort(env):
    stub = env.PROBES.getByName("aborted")
    await stub.run("objects", "_note", 0)
    try:
        await stub.stop("for a reason")
    except Exception as error:
        assert "for a reason" in str(error)
    else:
        raise AssertionError("abort() returned")
    fresh = env.PROBES.getByName("aborted")
    assert await fresh.run("objects", "_note", 0) == 1
    assert list(await fresh.run("objects", "_born")) == ["again"]
