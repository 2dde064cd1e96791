"""URLs and their parameters (URL Standard)."""

from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import URL, URLSearchParams, scope_url


@pytest.mark.parametrize(
    ("given_url", "href"),
    [
        ("https://test.com", "https://test.com/"),
        ("HTTP://EXAMPLE.com:80/a/../b?x#y", "http://example.com/b?x#y"),
        ("https://user:pa ss@example.com:444/", "https://user:pa%20ss@example.com:444/"),
        ("http:\\\\host\\a\\b", "http://host/a/b"),
        ("  http://host/a b?c d#e f ", "http://host/a%20b?c%20d#e%20f"),
        ("http://host/%7ea/%2e%2E/b", "http://host/b"),
        ("http://ho\tst/\n", "http://host/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://192.168.257/", "http://192.168.1.1/"),
        ("http://[2001:DB8:0:0:1:0:0:1]/", "http://[2001:db8::1:0:0:1]/"),
        ("http://[::ffff:1.2.3.4]/", "http://[::ffff:102:304]/"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://host:0/", "http://host:0/"),
        ("http://host/a?'\"", "http://host/a?%27%22"),
        ("http://host?q", "http://host/?q"),
        ("http://host/a/.", "http://host/a/"),
        ("http://host/a/..", "http://host/"),
        ("mailto:a@b.c", "mailto:a@b.c"),
        ("data:text/plain,hi there", "data:text/plain,hi there"),
        ("file:///a/../b", "file:///b"),
        ("foo://Host/a/../b", "foo://Host/b"),
    ],
)
def test_normal_form(given_url: str, href: str) -> None:
    assert URL(given_url).href == href
    assert URL(href).href == href


@pytest.mark.parametrize(
    "text",
    ["", "/path", "example.com", "http://", "http://a b/", "http://host:99999/", "http://host:x/", "http://[::1",
     "http://256.256.256.256/", "http://a%00b/", "http://1.2.3.4.5/", "https://"],
)  # fmt: skip
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(TypeError, match="Invalid URL"):
        URL(text)
    assert not URL.canParse(text)


@pytest.mark.parametrize(
    ("relative", "href"),
    [
        ("d", "http://a/b/d?e".replace("?e", "")),
        ("../d", "http://a/d"),
        ("/d", "http://a/d"),
        ("//other/d", "http://other/d"),
        ("?x=1", "http://a/b/c?x=1"),
        ("#y", "http://a/b/c?q#y"),
        ("", "http://a/b/c?q"),
        ("https://x/", "https://x/"),
        ("./", "http://a/b/"),
    ],
)
def test_relative_to_a_base(relative: str, href: str) -> None:
    assert URL(relative, "http://a/b/c?q#f").href == href


def test_parts() -> None:
    url = URL.new("https://user:secret@example.com:8443/a/b?x=1&y=2#frag")
    assert (url.protocol, url.host, url.hostname, url.port) == ("https:", "example.com:8443", "example.com", "8443")
    assert (url.pathname, url.search, url.hash) == ("/a/b", "?x=1&y=2", "#frag")
    assert (url.username, url.password, url.origin) == ("user", "secret", "https://example.com:8443")
    assert str(url) == url.toString() == url.toJSON() == url.href


def test_parts_can_be_set() -> None:
    url = URL("http://host/a?x=1")
    url.pathname = "b c/../d"
    url.search = "y=2"
    url.hash = "z"
    url.hostname = "Other"
    url.port = "81"
    url.protocol = "https"
    assert url.href == "https://other:81/d?y=2#z"
    url.port = "443"
    assert url.host == "other"


def test_search_params_write_back() -> None:
    url = URL("http://host/?a=1")
    url.searchParams.append("b", "x y")
    assert url.search == "?a=1&b=x+y"
    url.search = "?c=3"
    assert url.searchParams.get("c") == "3"
    url.searchParams.delete("c")
    assert url.href == "http://host/"


def test_search_params() -> None:
    params = URLSearchParams("?a=1&b=2&a=3&empty&=x&p%20q=%F0%9F%92%A9&bad=%ff+")
    assert params.get("a") == "1"
    assert params.getAll("a") == ["1", "3"]
    assert params.get("empty") == ""
    assert params.get("none") is None
    assert params.get("p q") == "💩"
    assert params.get("bad") == "\ufffd "
    params.set("a", 5)
    assert params.getAll("a") == ["5"]
    assert params.has("b")
    assert not params.has("b", "3")
    params.delete("b")
    params.sort()
    assert params.toString() == "=x&a=5&bad=%EF%BF%BD+&empty=&p+q=%F0%9F%92%A9"
    assert URLSearchParams({"a": 1, "b": True}).toString() == "a=1&b=true"


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(blacklist_categories=["Cs"])), st.text(st.characters(blacklist_categories=["Cs"]))
        )
    )
)
def test_pairs_survive_serialisation(pairs: list[tuple[str, str]]) -> None:
    assert list(URLSearchParams(URLSearchParams(pairs).toString())) == pairs


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused_and_the_result_is_stable(text: str) -> None:
    url = URL.parse(text, "http://base/x/y?z")
    if url is not None:
        assert URL(url.href).href == url.href


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=20), st.text(max_size=20))
def test_a_path_and_a_query_never_become_a_host(path: str, query: str) -> None:
    url = URL(f"http://host/{quote(path, safe='')}?{quote(query, safe='', errors='replace')}")
    assert url.hostname == "host"
    assert url.href.isascii()


def _scope(**changes: object) -> dict[str, object]:
    return {
        "scheme": "http", "path": "/a b", "raw_path": b"/a%20b", "query_string": b"x=1",
        "headers": [(b"host", b"Example.com:8787")], "server": ("127.0.0.1", 8787), **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "http://example.com:8787/a%20b?x=1"),
        ({"headers": []}, "http://127.0.0.1:8787/a%20b?x=1"),
        ({"headers": [], "server": None}, "http://localhost/a%20b?x=1"),
        ({"headers": [], "server": ("::1", 80)}, "http://[::1]/a%20b?x=1"),
        ({"raw_path": None}, "http://example.com:8787/a%20b?x=1"),
        ({"query_string": b""}, "http://example.com:8787/a%20b"),
        ({"raw_path": b"/a/../b"}, "http://example.com:8787/b?x=1"),
        ({"scheme": "https", "headers": [(b"host", b"h:443")]}, "https://h/a%20b?x=1"),
        ({"headers": [(b"host", b"bad host")]}, "http://localhost/a%20b"),
    ],
)
def test_url_of_a_scope(changes: dict[str, object], url: str) -> None:
    assert scope_url(_scope(**changes)) == url


@given(
    st.from_regex(r"(/|\.|%2[eE]|[a-zA-Z0-9_~%!$&()*+,;=:@\-]){0,8}", fullmatch=True).map("/".__add__),
    st.from_regex(r"[a-z0-9.:\-]{1,12}", fullmatch=True)
    | st.from_regex(r"([0-9]{1,3}\.){2,4}[0-9a-z]{1,3}(:[0-9]{1,5})?", fullmatch=True),
)
@example("/a/%2E%2e/b", "localhost")
@example("/", "127.0.0.1:8787")
@example("/", "127.0.0.01")
@example("/", "256.0.0.1")
@example("/", "a.b.80:080")
def test_the_short_way_gives_what_the_parser_gives(path: str, host: str) -> None:
    text = f"http://{host}{path}"
    expected = URL.parse(text)
    if expected is not None:
        scope = _scope(headers=[(b"host", host.encode())], raw_path=path.encode(), query_string=b"")
        assert scope_url(scope) == expected.href
