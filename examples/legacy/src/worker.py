"""A program of 2024: a handler of the module, and the names of JavaScript."""

from js import URL, Headers, Object, Response, console
from pyodide.ffi import to_js


async def on_fetch(request, env):
    url = URL.new(request.url)
    console.log("asked for", url.pathname)
    if url.pathname == "/json":
        name = url.searchParams.get("name") or "nobody"
        return Response.json(to_js({"greeting": env.GREETING, "name": name}, dict_converter=Object.fromEntries))
    headers = Headers.new()
    headers.append("x-greeting", env.GREETING)
    headers.append("set-cookie", "a=1")
    headers.append("set-cookie", "b=2")
    if request.method == "POST":
        return Response.new(await request.text(), status=201, headers=headers)
    return Response.new(f"{env.GREETING} from {url.pathname}", headers=headers)
