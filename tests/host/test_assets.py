"""Static assets: which file answers which path, who comes first, and what is never served."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import Request
from moorage.wrangler_compat.config.model import Assets
from moorage.wrangler_compat.host.assets import AssetsFetcher, StaticAssets, rules
from moorage.wrangler_compat.host.assets.files import content_type
from moorage.wrangler_compat.host.assets.ignoring import Ignored
from moorage.wrangler_compat.host.assets.rules import Found, Moved
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.values import BindingError
from moorage.wrangler_compat.workers.rpc import _FetcherWrapper
from tests.support.workers_in_process import ask, host_of, lay

PAGES = {"/index.html", "/file.html", "/folder/index.html", "/both.html", "/both/index.html", "/plain.txt", "/bin"}


def walk(path: str, handling: str, files: set[str] = PAGES) -> list[str]:
    """The path, the paths that it moves to, and the file at the end (`404` for none)."""
    steps = [path]
    while True:
        intent = rules.resolve(steps[-1], files.__contains__, handling)
        if not isinstance(intent, Moved):
            return [*steps, "404" if intent is None else f"={intent.path}"]
        assert len(steps) < 4, f"a loop: {steps}"
        steps.append(intent.path)


@pytest.mark.parametrize(
    ("handling", "steps"),
    [
        ("auto-trailing-slash", ["/", "=/index.html"]),
        ("auto-trailing-slash", ["/index", "/", "=/index.html"]),
        ("auto-trailing-slash", ["/index.html", "/", "=/index.html"]),
        ("auto-trailing-slash", ["/file", "=/file.html"]),
        ("auto-trailing-slash", ["/file.html", "/file", "=/file.html"]),
        ("auto-trailing-slash", ["/file/", "/file", "=/file.html"]),
        ("auto-trailing-slash", ["/file/index", "/file", "=/file.html"]),
        ("auto-trailing-slash", ["/file/index.html", "/file", "=/file.html"]),
        ("auto-trailing-slash", ["/folder", "/folder/", "=/folder/index.html"]),
        ("auto-trailing-slash", ["/folder.html", "/folder/", "=/folder/index.html"]),
        ("auto-trailing-slash", ["/folder/", "=/folder/index.html"]),
        ("auto-trailing-slash", ["/folder/index", "/folder/", "=/folder/index.html"]),
        ("auto-trailing-slash", ["/folder/index.html", "/folder/", "=/folder/index.html"]),
        ("auto-trailing-slash", ["/both", "=/both.html"]),
        ("auto-trailing-slash", ["/both/", "=/both/index.html"]),
        ("auto-trailing-slash", ["/plain.txt", "=/plain.txt"]),
        ("auto-trailing-slash", ["/plain.txt/", "404"]),
        ("auto-trailing-slash", ["/plain", "404"]),
        ("auto-trailing-slash", ["/bin", "=/bin"]),
        ("auto-trailing-slash", ["/none", "404"]),
        ("auto-trailing-slash", ["/folder/none", "404"]),
        ("force-trailing-slash", ["/file", "/file/", "=/file.html"]),
        ("force-trailing-slash", ["/file.html", "/file/", "=/file.html"]),
        ("force-trailing-slash", ["/file/", "=/file.html"]),
        ("force-trailing-slash", ["/file/index", "/file/", "=/file.html"]),
        ("force-trailing-slash", ["/folder", "/folder/", "=/folder/index.html"]),
        ("force-trailing-slash", ["/folder/index.html", "/folder/", "=/folder/index.html"]),
        ("force-trailing-slash", ["/both/", "=/both/index.html"]),
        ("force-trailing-slash", ["/both.html", "=/both.html"]),
        ("force-trailing-slash", ["/", "=/index.html"]),
        ("force-trailing-slash", ["/index.html", "/", "=/index.html"]),
        ("force-trailing-slash", ["/plain.txt", "=/plain.txt"]),
        ("drop-trailing-slash", ["/file", "=/file.html"]),
        ("drop-trailing-slash", ["/file/", "/file", "=/file.html"]),
        ("drop-trailing-slash", ["/folder", "=/folder/index.html"]),
        ("drop-trailing-slash", ["/folder/", "/folder", "=/folder/index.html"]),
        ("drop-trailing-slash", ["/folder/index", "/folder", "=/folder/index.html"]),
        ("drop-trailing-slash", ["/folder/index.html", "/folder", "=/folder/index.html"]),
        ("drop-trailing-slash", ["/both", "=/both.html"]),
        ("drop-trailing-slash", ["/both/index.html", "=/both/index.html"]),
        ("drop-trailing-slash", ["/index.html", "/", "=/index.html"]),
        ("drop-trailing-slash", ["/index", "/", "=/index.html"]),
        ("none", ["/", "404"]),
        ("none", ["/index.html", "=/index.html"]),
        ("none", ["/file", "404"]),
        ("none", ["/file.html", "=/file.html"]),
        ("none", ["/folder/", "404"]),
    ],
)
def test_pages(handling: str, steps: list[str]) -> None:
    assert walk(steps[0], handling) == steps


segments = st.lists(st.sampled_from(["a", "b", "index", "index.html", "a.html", "b.html", "x.txt"]), max_size=3)
paths = st.builds(
    lambda parts, slash: "/" + "/".join(parts) + ("/" if slash and parts else ""), segments, st.booleans()
)


@given(st.sampled_from(rules.HTML_HANDLING), st.sets(paths.filter(lambda p: not p.endswith("/"))), paths)
def test_a_path_ends_at_a_file_or_nowhere_and_never_in_a_circle(handling: str, files: set[str], path: str) -> None:
    end = walk(path, handling, files)[-1]
    assert end == "404" or end[1:] in files
    if handling != "none":
        intent = rules.resolve(path, files.__contains__, handling)
        assert not isinstance(intent, Moved) or intent.location.startswith("/")


@given(st.text(max_size=30).map(lambda text: "/" + text))
def test_no_path_leaves_the_folder(raw: str) -> None:
    path = rules.decoded_path(raw)
    if path is not None:
        parts = path[1:].split("/")
        assert not {".", ".."} & set(parts)
        assert not any(part.startswith(".") and part != ".well-known" for part in parts)
        assert all(parts[:-1]), "an empty segment could make a redirect to another host"


@pytest.mark.parametrize(
    "raw",
    [
        "/../secret", "/%2e%2e/secret", "/a/..%2f..%2fsecret", "/..%5csecret", "/.git/config", "/%2egit/config",
        "/.env",
        "/a//b", "//evil.example/", "/%2F%2Fevil.example", "/a%00b", "/_headers", "/_redirects", "/.assetsignore",
        "/%ff",
    ],
)  # fmt: skip
def test_paths_that_name_no_file(raw: str) -> None:
    assert rules.decoded_path(raw) is None


def test_paths_that_do() -> None:
    assert rules.decoded_path("/.well-known/security.txt") == "/.well-known/security.txt"
    assert rules.decoded_path("/%C3%A9%20b.txt") == "/é b.txt"
    assert Moved("/é b/").location == "/%C3%A9%20b/"


@pytest.mark.parametrize(
    ("handling", "path", "found"),
    [
        ("none", "/x", None),
        ("404-page", "/a/b/c", Found("/a/404.html", 404)),
        ("404-page", "/a", Found("/404.html", 404)),
        ("404-page", None, Found("/404.html", 404)),
        ("single-page-application", "/a/b", Found("/index.html")),
    ],
)
def test_what_answers_when_no_file_does(handling: str, path: str | None, found: Found | None) -> None:
    files = {"/404.html", "/a/404.html", "/index.html"}
    assert rules.missing(path, files.__contains__, handling) == found
    if found is not None:
        assert rules.missing(path, set().__contains__, handling) is None


@pytest.mark.parametrize(
    ("patterns", "path", "who"),
    [
        (True, "/x", "worker"),
        (False, "/x", None),
        (("/api/*",), "/api/x/y", "worker"),
        (("/api/*",), "/api", None),
        (("/api/*", "!/api/docs/*"), "/api/docs/x", "assets"),
        (("!/api/docs/*", "/api/*"), "/api/doc", "worker"),
        (("/a.b",), "/aXb", None),
        (("/*.json",), "/a/b.json", "worker"),
    ],
)
def test_who_comes_first(patterns: Any, path: str, who: str | None) -> None:
    assert rules.first(patterns, path) == who


@pytest.mark.parametrize(
    ("lines", "ignored", "served"),
    [
        (["# comment", "", "*.map"], ["/a.map", "/x/a.map"], ["/a.map.txt"]),
        (["/top.txt"], ["/top.txt"], ["/x/top.txt"]),
        (["drafts/"], ["/drafts/a", "/x/drafts/b/c"], ["/drafts"]),
        (["a/**/z"], ["/a/z", "/a/b/c/z"], ["/z", "/b/a/z"]),
        (["*.txt", "!keep.txt"], ["/a.txt"], ["/keep.txt", "/x/keep.txt"]),
        (["secret/**"], ["/secret/a", "/secret/b/c"], ["/other/a"]),
        (["[ab]?.txt", r"\#x", r"[!c].bin"], ["/a1.txt", "/#x", "/d.bin"], ["/c1.txt", "/a12.txt", "/c.bin"]),
    ],
)
def test_assetsignore(lines: list[str], ignored: list[str], served: list[str]) -> None:
    says = Ignored(lines)
    assert [path for path in ignored + served if says(path)] == ignored


@given(
    st.lists(st.text(st.sampled_from("ab*?![]/\\# ."), max_size=8), max_size=4),
    st.text(st.sampled_from("ab/."), max_size=8),
)
def test_any_assetsignore_can_be_read(lines: list[str], path: str) -> None:
    assert Ignored(lines)("/" + path) in {True, False}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("/a.html", "text/html; charset=utf-8"), ("/a.js", "text/javascript; charset=utf-8"),
        ("/a.mjs", "text/javascript; charset=utf-8"), ("/a.css", "text/css; charset=utf-8"),
        ("/a.json", "application/json"), ("/a.svg", "image/svg+xml"),
        ("/a.ico", "image/vnd.microsoft.icon"),
        ("/a.png", "image/png"), ("/a.webp", "image/webp"), ("/a.woff2", "font/woff2"),
        ("/a.wasm", "application/wasm"),
        ("/a.tar.gz", "application/gzip"), ("/a.unknown", None), ("/a", None),
    ],
)  # fmt: skip
def test_types(name: str, kind: str | None) -> None:
    assert content_type(name) == kind


ENTRY = """
    from workers import Response, WorkerEntrypoint

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            path = "/" + request.url.split("/", 3)[3].partition("?")[0]
            if path == "/through":
                return await self.env.ASSETS.fetch(request.url.replace("/through", "/page"))
            if path == "/again":
                answer = await self.env.ASSETS.fetch(request)
                return Response(f"assets said {answer.status}")
            return Response(f"worker {request.method} {path}", status=203)
"""


def site(folder: Path, extra: str = "", entry: str = ENTRY) -> Path:
    public = folder / "public"
    public.mkdir(parents=True)
    (public / "index.html").write_text("<h1>index</h1>")
    (public / "page.html").write_text("page")
    (public / "404.html").write_text("nothing here")
    (public / "empty.txt").write_text("")
    (public / "big.bin").write_bytes(bytes(range(256)) * 8192)
    (public / ".env").write_text("SECRET=1")
    (public / "ignored.txt").write_text("ignored")
    (public / ".assetsignore").write_text("ignored.txt\n")
    (folder / "outside.txt").write_text("outside")
    os.symlink(folder / "outside.txt", public / "link.txt")
    os.symlink("page.html", public / "inside.html")
    return lay(folder, entry, f'[assets]\ndirectory = "./public"\nbinding = "ASSETS"\n{extra}')


async def test_over_a_real_server(tmp_path: Path) -> None:
    serving = Serving(host_of(tmp_path / "state", site(tmp_path / "w")))
    await serving.start()
    async with httpx.AsyncClient(base_url=serving.url) as client:
        page = await client.get("/page")
        assert (page.status_code, page.text) == (200, "page")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "public, max-age=0, must-revalidate"
        tag = page.headers["etag"]
        for field in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            same = await client.get("/page", headers={"if-none-match": field})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        assert (await client.get("/page", headers={"if-none-match": '"other"'})).status_code == 200
        moved = await client.get("/page.html?q=1&r=%2F")
        assert (moved.status_code, moved.headers["location"]) == (307, "/page?q=1&r=%2F")
        head = await client.head("/big.bin")
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "2097152", b"")
        assert (await client.get("/big.bin")).content == bytes(range(256)) * 8192
        assert (await client.get("/empty.txt")).content == b""
        assert (await client.get("/inside")).text == "page"
        refused = await client.post("/page", content=b"x")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
        for path in ("/.env", "/ignored.txt", "/link.txt", "/%2e%2e/outside.txt", "/none", "/.assetsignore"):
            answer = await client.get(path)
            assert answer.status_code == 203, "no file: the Worker answers"
            assert answer.text.startswith("worker GET ")
        assert (await client.get("/through")).text == "page"
        assert (await client.get("/again")).text == "assets said 404"
        (tmp_path / "w" / "public" / "page.html").write_text("changed page")
        changed = await client.get("/page")
        assert changed.text == "changed page"
        assert changed.headers["etag"] != tag
    await serving.stop()


async def test_the_worker_first(tmp_path: Path) -> None:
    folder = site(tmp_path / "w", 'run_worker_first = ["/page*", "!/page/files/*"]\nnot_found_handling = "404-page"')
    host = host_of(tmp_path / "state", folder)
    await host.start()
    assert await (await ask(host, "/page")).text() == "worker GET /page"
    missing = await ask(host, "/page/files/none")
    assert (missing.status, await missing.text()) == (404, "nothing here")
    assert await (await ask(host, "/")).text() == "<h1>index</h1>"
    assert await (await ask(host, "/other")).text() == "worker GET /other"
    await host.close()


async def test_a_single_page_application(tmp_path: Path) -> None:
    folder = site(tmp_path / "w", 'not_found_handling = "single-page-application"')
    host = host_of(tmp_path / "state", folder)
    await host.start()
    assert await (await ask(host, "/some/view")).text() == "worker GET /some/view"
    navigation = await ask(host, "/some/view", headers={"sec-fetch-mode": "navigate"})
    assert (navigation.status, await navigation.text()) == (200, "<h1>index</h1>")
    await host.close()


async def test_files_without_a_worker(tmp_path: Path) -> None:
    folder = site(tmp_path / "w", 'not_found_handling = "404-page"')
    config = (
        (folder / "wrangler.toml").read_text().replace('main = "entry.py"\n', "").replace('binding = "ASSETS"\n', "")
    )
    (folder / "wrangler.toml").write_text(config)
    host = host_of(tmp_path / "state", folder)
    await host.start()
    assert await (await ask(host, "/")).text() == "<h1>index</h1>"
    missing = await ask(host, "/none")
    assert (missing.status, await missing.text()) == (404, "nothing here")
    await host.close()


async def test_the_binding(tmp_path: Path) -> None:
    folder = site(tmp_path / "w")
    assets: Any = AssetsFetcher(StaticAssets(Assets(folder / "public"), has_worker=True, navigation=False))
    answer = await assets.fetch(Request("https://any.host/page"))
    assert await answer.text() == "page"
    followed = await assets.fetch("https://any.host/page.html")
    assert (await followed.text(), followed.url) == ("page", "https://any.host/page")
    assert (await assets.fetch(Request("https://any.host/page.html", redirect="manual"))).status == 307
    assert await (await assets.fetch(Request("https://any.host/page").js_object)).text() == "page"
    assert (await assets.fetch("https://any.host/none")).status == 404
    assert (await assets.fetch("https://any.host/page", method="HEAD")).headers["content-length"] == "4"
    with pytest.raises(TypeError, match=r"Fetcher.*has no len"):
        len(assets)
    assert isinstance(assets, _FetcherWrapper)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (Assets(None), "assets: `directory` is missing"),
        (Assets(Path("/nowhere/at/all")), "assets: the directory /nowhere/at/all does not exist"),
        (Assets(Path("/"), html_handling="auto"), "html_handling is 'auto', but must be one of auto-trailing-slash"),
        (
            Assets(Path("/"), not_found_handling="404"),
            "not_found_handling is '404', but must be one of none, 404-page",
        ),
        (Assets(Path("/"), run_worker_first=("api/*",)), "'api/*'; a pattern begins with / or !/"),
    ],
)
def test_faults_of_the_configuration(config: Assets, text: str) -> None:
    with pytest.raises(BindingError) as caught:
        StaticAssets(config, has_worker=True, navigation=False)
    assert text in str(caught.value)


def test_rules_that_are_not_read_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "_headers").write_text("/*\n  x: y\n")
    StaticAssets(Assets(tmp_path), has_worker=True, navigation=False)
    assert "_headers is not read here" in caplog.text
