"""The stores behind `POST /__test/store`: recorded store calls, replayed from outside with their own times.

The host serves that path with `--test-hooks` on loopback only; names of operations and the order of arguments are the
recordings'.
"""

from typing import Any

STORES = {
    "etag": "GITHUB_ETAG_CACHE",
    "artifact-receipts": "EXACT_REVIEW_QUEUE",
    "command-intake": "EXACT_REVIEW_QUEUE",
}
ETAG_STORE = "store-hook"
QUEUE = "global"


async def test_store(env: Any, request: Any) -> dict[str, Any]:
    """`{"result": …}`, or `{"threw": …}` with the message; an unknown store throws."""
    store, op, args = request.get("store"), request.get("op"), request.get("args")
    binding = getattr(env, STORES.get(store, ""), None)
    if binding is None or not isinstance(op, str) or not isinstance(args, list):
        return {"threw": f"a store of {', '.join(STORES)} with op and args is needed, not {store!r}"}
    stub = binding.getByName(ETAG_STORE if store == "etag" else QUEUE)
    return await stub.call_store(store, op, args)  # type: ignore[no-any-return]
