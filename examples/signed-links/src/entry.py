"""Links that end: `/sign/report.pdf` redirects to one, `/report.pdf?…` answers while its signature holds."""

import json

from js import URL, Date, TextEncoder, Uint8Array, crypto
from pyodide.ffi import JsException
from workers import Response, WorkerEntrypoint

encode = TextEncoder.new().encode


class Default(WorkerEntrypoint):
    async def key(self):
        algorithm = {"name": "HMAC", "hash": "SHA-256"}
        return await crypto.subtle.importKey(
            "raw", encode(self.env.SIGNING_KEY), algorithm, False, ["sign", "verify"]
        )

    async def fetch(self, request):
        url = URL.new(request.url)
        if url.pathname.startswith("/sign/"):
            return await self.signed(url)
        try:
            signature = bytes.fromhex(url.searchParams.get("signature") or "")
            until = int(url.searchParams.get("until") or "0")
            text = encode(json.dumps([url.pathname, until]))
            if not await crypto.subtle.verify("HMAC", await self.key(), signature, text):
                return Response("This link was not made here.", status=403)
        except (ValueError, JsException):
            return Response("This is no signed link.", status=400)
        if Date.now() > until:
            return Response("This link has ended.", status=410)
        return Response(f"Here is {url.pathname}.")

    async def signed(self, url):
        until = Date.now() + int(self.env.SECONDS) * 1000
        target = URL.new(url.pathname.removeprefix("/sign"), url.origin)
        text = encode(json.dumps([target.pathname, until]))
        signature = await crypto.subtle.sign("HMAC", await self.key(), text)
        target.searchParams.set("until", str(until))
        target.searchParams.set("signature", bytes(Uint8Array.new(signature)).hex())
        return Response.redirect(target.href, 302)
