"""The chat rooms of `examples/chatroom`, served as a reader would serve them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.settings import HostSettings

FOLDER = Path(__file__).parents[2] / "examples" / "chatroom"


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    settings = HostSettings(state=tmp_path / "state", port=0, access_log=False, idle_seconds=0.1, drain_seconds=5)
    made = Serving(Host([FOLDER], settings, mode="dev", environ={}))
    await made.start()
    yield made
    await made.stop()


class Guest:
    """Somebody in a room."""

    def __init__(self, client: ClientConnection) -> None:
        self.client = client

    @classmethod
    async def enter(cls, serving: Serving, room: str, name: str) -> "Guest":
        guest = cls(await connect(serving.url.replace("http", "ws", 1) + room, proxy=None))
        await guest.send(name=name)
        return guest

    async def send(self, **message: str) -> None:
        await self.client.send(json.dumps(message))

    async def hears(self) -> Any:
        return json.loads(await asyncio.wait_for(self.client.recv(), 10))


async def test_a_conversation_over_a_room_that_falls_asleep(serving: Serving) -> None:
    ada = await Guest.enter(serving, "/garden", "Ada")
    assert await ada.hears() == {"history": [], "present": ["Ada"]}
    await ada.send(text="anybody here?")
    assert await ada.hears() == {"name": "Ada", "text": "anybody here?"}
    rooms = serving.host.workers[0].own["Room"]
    while rooms.live:
        await asyncio.sleep(0.02)
    ben = await Guest.enter(serving, "/garden", "Ben")
    assert await ben.hears() == {"history": [{"name": "Ada", "text": "anybody here?"}], "present": ["Ada", "Ben"]}
    assert await ada.hears() == {"joined": "Ben"}
    other = await Guest.enter(serving, "/cellar", "Ben")
    assert await other.hears() == {"history": [], "present": ["Ben"]}
    await ben.send(text="yes")
    assert await ada.hears() == await ben.hears() == {"name": "Ben", "text": "yes"}
    await ben.client.close()
    assert await ada.hears() == {"left": "Ben"}
    async with httpx.AsyncClient(base_url=serving.url) as client:
        shown = (await client.get("/garden", headers={"accept": "application/json"})).json()
        assert (shown["present"], len(shown["history"])) == (["Ada"], 2)
        assert "<title>Chat room</title>" in (await client.get("/garden")).text
    await ada.client.close()
    await other.client.close()


async def test_names_are_taken_once_and_nonsense_is_explained(serving: Serving) -> None:
    ada = await Guest.enter(serving, "/garden", "Ada")
    await ada.hears()
    second = await Guest.enter(serving, "/garden", " Ada ")
    with pytest.raises(ConnectionClosed):
        await second.hears()
    assert (second.client.close_code, second.client.close_reason) == (4009, "this name is taken, or empty")
    await ada.client.send("no JSON")
    assert "expected a name first" in (await ada.hears())["error"]
    await ada.client.send("ping")
    assert await ada.client.recv() == "pong"
    await ada.client.close()


async def test_history_is_bounded(serving: Serving) -> None:
    ada = await Guest.enter(serving, "/garden", "Ada")
    await ada.hears()
    for number in range(60):
        await ada.send(text=str(number))
    for number in range(60):
        assert await ada.hears() == {"name": "Ada", "text": str(number)}
    await ada.client.close()
    async with httpx.AsyncClient(base_url=serving.url) as client:
        shown = (await client.get("/garden", headers={"accept": "application/json"})).json()
    assert [said["text"] for said in shown["history"]] == [str(number) for number in range(10, 60)]
