"""Liveness for the public (spec state-plane-protocol 11.10). Readiness is the host's, on the admin port."""

from ..routing import Auth, Call, Result, Route


async def health(call: Call) -> Result:
    """`{"ok":true,"service":"clawsweeper-status","deployment_sha":…}`, whatever the method (`auth/health-with-
    deployment`).
    """
    sha = getattr(call.env, "CLAWSWEEPER_DEPLOY_SHA", None)
    return {"ok": True, "service": "clawsweeper-status", "deployment_sha": sha or None}


routes = [Route((), "/api/health", health, auth=Auth.NONE)]
