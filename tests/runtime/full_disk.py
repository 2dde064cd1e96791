"""A process whose files may not grow: writes until they cannot, then again with room. Run by `test_full_disk`.

Arguments: the state folder, the limit in bytes. Prints one JSON object: what was acknowledged, by name of the object.
"""

import asyncio
import json
import resource
import sys
from typing import Any

from moorage.durable_objects.runtime import DurableObject, Runtime

WORD = "x" * 4_000


class Notes(DurableObject):
    """Keeps every value under a key of its own, and an alarm far away."""

    async def add(self, number: int) -> int:
        await self.ctx.storage.put(f"note:{number:06}", WORD)
        await self.ctx.storage.setAlarm(4_000_000_000_000 + number)
        return number

    async def add_explicitly(self, number: int) -> int:
        async def closure(txn: Any) -> None:
            await txn.put(f"note:{number:06}", WORD)
            await txn.put(f"second:{number:06}", WORD)

        await self.ctx.storage.transaction(closure)
        return number

    async def fill(self, number: int) -> int:
        """One transaction that is larger than SQLite's page cache: it fails in the middle."""
        self.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS large(value TEXT)")
        for _ in range(4_000):
            self.ctx.storage.sql.exec("INSERT INTO large VALUES (?)", WORD)
        return number

    async def notes(self) -> dict[str, Any]:
        found = await self.ctx.storage.list()
        tables = self.ctx.storage.sql.exec("SELECT name FROM sqlite_master WHERE name='large'").toArray()
        return {"keys": list(found), "large": len(tables), "alarm": await self.ctx.storage.getAlarm()}

    async def alarm(self) -> None: ...


async def main(folder: str, limit: int) -> None:
    runtime = Runtime(folder)
    notes = runtime.namespace("w-Notes", Notes)
    await runtime.start()
    await notes.getByName("early").add(0)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    kept: dict[str, list[int]] = {"early": [0]}
    errors: dict[str, list[str]] = {}
    for name, method in (("plain", "add"), ("explicit", "add_explicitly"), ("large", "fill"), ("late", "add")):
        for number in range(400):
            try:
                kept.setdefault(name, []).append(await getattr(notes.getByName(name), method)(number))
            except Exception as error:
                errors.setdefault(name, []).append(f"{type(error).__name__}: {error}")
                if len(errors[name]) == 5:
                    break
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    for name in ("plain", "explicit", "large", "late"):
        kept.setdefault(name, []).append(await notes.getByName(name).add(999))
    # the process ends here as by SIGKILL: nothing is closed
    print(json.dumps({"kept": kept, "errors": errors}), flush=True)
    sys.stdout.flush()
    import os

    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
