"""What the client never shows."""

import logging
import pickle
import traceback

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.errors import ClientError, ConfigurationError, RemoteError, TransportError
from moorage.clients.http import AsyncHttp
from moorage.clients.secret import Secret, redact
from tests.support.http import Script

from .http_client import SECRET, URL, client


class TestSecrets:
    FORMS = (SECRET, "very%2Fsecret%20value%2B1", "dmVyeS9zZWNyZXQgdmFsdWUrMQ==")

    async def test_no_error_shows_them(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        failures: list[Exception | httpx.Response] = [
            httpx.ConnectError(f"cannot reach {form}") for form in self.FORMS
        ]
        failures.append(httpx.Response(500, json={"error": "x"}))
        async with client(Script(failures)) as http:
            with pytest.raises(ClientError) as caught:
                await http.json("POST", "/a", {})
            shown = [repr(http), str(caught.value), repr(caught.value), caplog.text]
        shown.append("".join(traceback.format_exception(caught.value)))
        async with client(Script([httpx.ConnectError(f"cannot reach {SECRET}")] * 4)) as http:
            with pytest.raises(TransportError) as last:
                await http.json("POST", "/a", {})
        shown.append("".join(traceback.format_exception(last.value)))
        assert "<hidden>" in str(last.value)
        for text in shown:
            for form in self.FORMS:
                assert form not in text

    async def test_nor_does_one_that_tells_what_a_service_said(self) -> None:
        told = {"error": f"x {SECRET}", "detail": f"key {SECRET} is wrong"}
        async with client(Script([httpx.Response(400, json=told)])) as http:
            with pytest.raises(RemoteError) as caught:
                await http.json("POST", "/a", {})
        assert str(caught.value) == "POST /a: x <hidden> (400): key <hidden> is wrong"
        assert SECRET not in repr(caught.value)

    def test_a_secret_that_is_no_text_is_in_no_error_or_its_context(self) -> None:
        with pytest.raises(ConfigurationError, match="the secret is not UTF-8") as caught:
            AsyncHttp(URL, "hunter2\udcff")
        error: BaseException | None = caught.value
        while error is not None:
            assert "hunter2" not in repr(error)
            error = error.__context__

    def test_a_secret_hides_itself(self) -> None:
        secret = Secret(f"  {SECRET}\n")
        assert secret.reveal() == SECRET.encode()
        assert SECRET not in f"{secret!r} {secret} {[secret]}"
        with pytest.raises(TypeError):
            pickle.dumps(secret)
        with pytest.raises(ValueError, match="empty"):
            Secret(" \n")
        assert redact("nothing", None) == "nothing"

    @given(st.text(min_size=1).filter(lambda text: text.strip() == text and text.isprintable()), st.text(), st.text())
    def test_redaction(self, secret: str, before: str, after: str) -> None:
        assert secret not in redact(before + secret + after, Secret(secret)).replace("<hidden>", "\0")
