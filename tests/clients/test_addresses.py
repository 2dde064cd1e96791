"""Addresses of the state plane, and the settings of a client."""

from typing import Any

import pytest

from moorage.clients.errors import ConfigurationError
from moorage.clients.http import AsyncHttp, check_url
from moorage.protocols.signatures import Request, verify_request
from tests.support.http import Script

from .http_client import NOW, SECRET, URL, client, ok


class TestAddresses:
    @pytest.mark.parametrize(
        ("given_url", "url"),
        [
            ("https://state.example.test/", "https://state.example.test"),
            (" http://127.0.0.1:8787 ", "http://127.0.0.1:8787"),
            ("https://example.test/base/", "https://example.test/base"),
            ("http://[::1]:8787", "http://[::1]:8787"),
        ],
    )
    def test_good(self, given_url: str, url: str) -> None:
        assert check_url(given_url) == url

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "state.example.test",
            "ftp://x",
            "https://",
            "https://u:p@x",
            "https://x?y",
            "https://x#y",
            "http://x:99999",
            "http://[::",
        ],
    )
    def test_bad(self, url: str) -> None:
        with pytest.raises(ConfigurationError):
            check_url(url)

    @pytest.mark.parametrize("url", ["http://user:hunter2", "http://host:hunter2/", "http://[hunter2"])
    def test_what_does_not_parse_is_not_shown(self, url: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            check_url(url)
        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("ALL_PROXY", "gopher://user:hunter2@proxy.example.test:1"),
            ("SSL_CERT_FILE", "/does/not/exist"),
        ],
    )
    async def test_an_environment_that_cannot_be_used_is_said(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        async with AsyncHttp(URL, SECRET) as http:
            with pytest.raises(ConfigurationError, match="proxies or certificates") as caught:
                await http.json("GET", "/a")
        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize("path", ["/a\0b", "/\ud800", "/" + "x" * 70_000])
    async def test_a_path_that_no_request_may_have(self, path: str) -> None:
        async with client(Script([])) as http:
            with pytest.raises(ConfigurationError, match="GET '/") as caught:
                await http.json("GET", path)
        assert len(str(caught.value)) < 400

    def test_plain_http_is_warned_about(self, caplog: pytest.LogCaptureFixture) -> None:
        check_url("http://127.0.0.1:1")
        assert not caplog.records
        check_url("http://state.example.test")
        assert "plain HTTP" in caplog.text

    @pytest.mark.parametrize("options", [{"secret": " "}, {"secret": "s", "signature_version": 3}])
    def test_settings_are_checked(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            AsyncHttp(URL, **options)

    async def test_a_base_path_is_part_of_what_is_signed(self) -> None:
        script = Script([ok()])
        async with AsyncHttp(URL + "/base", SECRET, transport=script, now=lambda: NOW) as http:
            await http.json("GET", "/a")
        assert script.seen[0].url.raw_path == b"/base/a"
        verify_request(
            Request("GET", b"/base/a", b"", [(name.lower(), value) for name, value in script.seen[0].headers.raw]),
            b"",
            {"webhook": [SECRET.encode()]},
            NOW,
        )
