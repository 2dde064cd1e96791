"""Signed requests to the state plane: one asynchronous flow, and a synchronous face of it.

A request has a deadline for each attempt (15 s), and at most four attempts with jittered backoff. Network failures,
429 and 5xx are tried again, `Retry-After` is obeyed; other 4xx are final. Every attempt is signed afresh: version 2
(RFC 9421) by default, version 1 on request.
"""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from moorage.protocols.signatures import body_hmac, sign_request

from .addresses import check_url
from .errors import ConfigurationError, InvalidAnswer, RemoteError, TransportError, remote_error
from .loop import LoopThread
from .retries import DEADLINE_SECONDS, Policy, Retryable, parse_retry_after
from .secret import Secret, redact

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("moorage.clients")

MAX_ANSWER_BYTES = 64 * 1024 * 1024
IDLE_SECONDS = 60.0
"""How long a stream may be silent; the service sends a comment every 15 s."""
MAX_LINE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the service: status, headers (names in lower case) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object. Raises InvalidAnswer."""
        try:
            value = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise InvalidAnswer(f"the answer ({self.status}) is not JSON") from None
        if not isinstance(value, dict):
            raise InvalidAnswer(f"the answer ({self.status}) is not a JSON object")
        return value


class AsyncHttp:
    """Sends signed requests. `async with AsyncHttp(url, secret) as http: await http.json("POST", path, {…})`.

    A client whose `secret` is None sends unsigned requests only.
    `transport`, `now`, `sleep`, `chance` and `nonce` are for tests: an httpx transport, the clock in seconds, how to
    wait, a random number in 0..1, and a fresh nonce.
    """

    def __init__(
        self,
        url: str,
        secret: Secret | str | None,
        *,
        key_id: str = "webhook",
        signature_version: Literal[1, 2] = 2,
        policy: Policy | None = None,
        transport: "httpx.AsyncBaseTransport | None" = None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        nonce: Callable[[], str] = lambda: secrets.token_urlsafe(18),
    ) -> None:
        if signature_version not in (1, 2):
            raise ConfigurationError(f"signature versions are 1 and 2, not {signature_version!r}")
        self.url = check_url(url)
        try:
            self._secret = Secret(secret) if isinstance(secret, str) else secret
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        self._key_id = key_id
        self._version = signature_version
        self.policy = policy or Policy()
        self._transport = transport
        self._now = now
        self._sleep = sleep
        self._chance = chance
        self._nonce = nonce
        self._not_before = 0
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, key_id={self._key_id!r}, version={self._version})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. May be called twice."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _headers(self, method: str, raw_path: bytes, body: bytes) -> dict[str, str]:
        if self._secret is None:
            raise ConfigurationError(f"{method} {raw_path.decode('ascii', 'replace')} is signed; there is no secret")
        key = self._secret.reveal()
        if self._version == 1:
            return {body_hmac.HEADER: body_hmac.sign(key, body)}
        path, _, query = raw_path.partition(b"?")
        created = max(int(self._now()), self._not_before)
        return sign_request(
            method, path, query, body, key=key, key_id=self._key_id, created=created, nonce=self._nonce()
        )

    def _http_client(self) -> "httpx.AsyncClient":
        if self._client is None:
            import httpx

            try:
                self._client = httpx.AsyncClient(
                    transport=self._transport, timeout=None, follow_redirects=False, headers={"user-agent": "moorage"}
                )
            except (ImportError, OSError, ValueError) as error:
                text = redact(f"the environment's proxies or certificates cannot be used: {error}", self._secret)
                raise ConfigurationError(text) from None
        return self._client

    async def _start(
        self, method: str, path: str, body: bytes, signed: bool, headers: Mapping[str, str]
    ) -> "httpx.Response":
        """The answer's status and headers; the caller reads the body and closes it."""
        client = self._http_client()
        sent = {"accept": "*/*", **headers}
        if body:
            sent["content-type"] = "application/json"
        request = client.build_request(method, self.url + path, content=body or None, headers=sent)
        if signed:
            request.headers.update(self._headers(method, request.url.raw_path, body))
        return await client.send(request, stream=True)

    @staticmethod
    async def _collect(what: str, response: "httpx.Response", limit: int) -> Answer:
        chunks, size = [], 0
        try:
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > limit:
                    raise InvalidAnswer(f"{what}: the answer is longer than {limit} bytes")
                chunks.append(chunk)
        finally:
            await response.aclose()
        lowered = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, lowered, b"".join(chunks))

    @contextmanager
    def _told(self, method: str, path: str, seconds: float) -> Iterator[None]:
        """Turns what httpx and the deadline raise into a Retryable, or an error, whose text holds no secret."""
        import httpx

        try:
            yield
        except TimeoutError:
            raise Retryable(TransportError(f"no answer to {method} {path} within {seconds:g} s")) from None
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ConfigurationError(redact(f"{method} {path!r:.200}: {error}", self._secret)) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            text = redact(f"{method} {self.url}{path}: {type(error).__name__}: {error}", self._secret)
            raise Retryable(TransportError(text)) from None

    async def _attempt(
        self, method: str, path: str, body: bytes, signed: bool, limit: int, deadline: float
    ) -> Answer:
        with self._told(method, path, deadline):
            async with asyncio.timeout(deadline):
                response = await self._start(method, path, body, signed, {})
                return await self._collect(f"{method} {path}", response, limit)

    def _refusal(self, what: str, answer: Answer) -> RemoteError:
        try:
            body = answer.json_object()
        except InvalidAnswer:
            body = {}
        code = body.get("error")
        location = answer.headers.get("location")
        if 300 <= answer.status < 400 and code is None and location:
            body = {"reason": f"it redirects to {location}; give that address"}
        return remote_error(
            answer.status,
            code if isinstance(code, str) else None,
            body,
            what=what,
            retry_after=parse_retry_after(answer.headers.get("retry-after"), self._now()),
            hide=lambda text: redact(text, self._secret),
        )

    def _may_sign_again(self, answer: Answer) -> bool:
        """Whether the service only says that it started after the signature was made.

        This is no retry of a refused request: a service that has just started cannot know which signatures were used.
        """
        if answer.status != 401 or self._version != 2:
            return False
        body = self._refusal("", answer).body
        not_before = body.get("not_before")
        if body.get("reason") != "created_before_start" or not isinstance(not_before, int):
            return False
        if not_before <= self._not_before or not_before > self._now() + 300:
            return False
        self._not_before = not_before
        return True

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        expect: tuple[int, ...],
        signed: bool,
        limit: int,
        deadline: float,
    ) -> Answer:
        answer = await self._attempt(method, path, body, signed, limit, deadline)
        if signed and self._may_sign_again(answer):
            answer = await self._attempt(method, path, body, signed, limit, deadline)
        if 200 <= answer.status < 300 or answer.status in expect:
            return answer
        error = self._refusal(f"{method} {path}", answer)
        if answer.status == 429 or answer.status >= 500:
            raise Retryable(error, error.retry_after)
        raise error

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        expect: tuple[int, ...] = (),
        signed: bool = True,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        check: Callable[[Answer], None] | None = None,
        policy: Policy | None = None,
    ) -> Answer:
        """Sends a request, trying again as the policy says, and returns an answer of status 2xx or in `expect`.

        `policy` stands for the client's in this one call: a longer deadline for a request that the service holds,
        one attempt for what must not be sent twice. `path` begins with `/` and may have a query. `check` looks at the
        answer; an InvalidAnswer of it is tried again too. Raises RemoteError and its kinds, TransportError,
        InvalidAnswer.
        """
        from tenacity import AsyncRetrying, RetryCallState, stop_after_attempt

        policy = policy or self.policy
        attempts = 0

        def wait(state: RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome is not None else None
            asked = failure.retry_after if isinstance(failure, Retryable) else None
            return max(policy.wait(state.attempt_number, self._chance()), asked or 0.0)

        async def once() -> Answer:
            nonlocal attempts
            attempts += 1
            answer = await self._send(method, path, body, expect, signed, max_answer_bytes, policy.deadline)
            if check is not None:
                try:
                    check(answer)
                except InvalidAnswer as error:
                    raise Retryable(error) from None
            return answer

        def is_worth_it(state: RetryCallState) -> bool:
            failure = state.outcome.exception() if state.outcome is not None else None
            return isinstance(failure, Retryable) and (failure.retry_after or 0.0) <= policy.max_retry_after

        retrying = AsyncRetrying(
            stop=stop_after_attempt(policy.attempts),
            wait=wait,
            retry=is_worth_it,
            sleep=self._sleep,
            reraise=True,
            before_sleep=lambda state: log.info("attempt %d failed: %s %s", state.attempt_number, method, path),
        )
        try:
            return await retrying(once)
        except Retryable as failure:
            error = failure.error
            if isinstance(error, TransportError | RemoteError):
                error.attempts = attempts
            raise error from None
        except RemoteError as error:
            error.attempts = attempts
            raise

    async def json(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        expect: tuple[int, ...] = (),
        signed: bool = True,
        check: Callable[[dict[str, Any]], object] | None = None,
        policy: Policy | None = None,
    ) -> dict[str, Any]:
        """`request` with a JSON body and a JSON object as the answer. `check` may raise InvalidAnswer.

        Raises ConfigurationError too, for a value that JSON does not hold: half characters, objects.
        """
        try:
            body = b"" if value is None else msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            text = f"{method} {path}: what was given cannot be sent as JSON: {error}"
            raise ConfigurationError(redact(text, self._secret)) from None
        found: dict[str, Any] = {}

        def look(answer: Answer) -> None:
            nonlocal found
            found = answer.json_object()
            if check is not None and answer.status < 300:
                check(found)

        await self.request(method, path, body, expect=expect, signed=signed, check=look, policy=policy)
        return found

    async def lines(
        self, path: str, *, headers: Mapping[str, str] | None = None, idle: float = IDLE_SECONDS
    ) -> AsyncIterator[str]:
        """The lines of a GET as they come, for server-sent events; ended by the service, or by `aclose()`.

        Lines end with LF or CRLF alone: U+2028 and its like are text. Nothing is tried again, since only the caller
        knows where to resume. Raises RemoteError for any status but 200, TransportError, after `idle` seconds of
        silence too, and InvalidAnswer for a line of more than 8 MiB.
        """
        try:
            response = await self._opened(path, headers or {})
            try:
                pending = b""
                chunks = aiter(response.aiter_bytes())
                while True:
                    with self._told("GET", path, idle):
                        async with asyncio.timeout(idle):
                            chunk = await anext(chunks, None)
                    if chunk is None:
                        return
                    *whole, pending = (pending + chunk).split(b"\n")
                    if len(pending) > MAX_LINE_BYTES:
                        raise InvalidAnswer(f"GET {path}: a line is longer than {MAX_LINE_BYTES} bytes")
                    for line in whole:
                        yield line.removesuffix(b"\r").decode("utf-8", "replace")
            finally:
                await response.aclose()
        except Retryable as failure:
            raise failure.error from None

    async def _opened(self, path: str, headers: Mapping[str, str]) -> "httpx.Response":
        deadline = self.policy.deadline
        for again in (True, False):
            with self._told("GET", path, deadline):
                async with asyncio.timeout(deadline):
                    response = await self._start("GET", path, b"", True, headers)
                    if response.status_code == 200:
                        return response
                    answer = await self._collect(f"GET {path}", response, MAX_ANSWER_BYTES)
            if not (again and self._may_sign_again(answer)):
                break
        raise self._refusal(f"GET {path}", answer)


class Http:
    """The synchronous face of `AsyncHttp`; takes what that takes. `with Http(url, secret) as http: http.json(…)`."""

    def __init__(self, url: str, secret: Secret | str | None, **options: Any) -> None:
        self.asynchronous = AsyncHttp(url, secret, **options)
        self.loop = LoopThread()

    def __repr__(self) -> str:
        return repr(self.asynchronous).replace("AsyncHttp", "Http", 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what other threads are waiting for, and closes the connections and the thread. May be called twice."""
        self.loop.close(self.asynchronous.close)

    def request(self, method: str, path: str, body: bytes = b"", **options: Any) -> Answer:
        """See `AsyncHttp.request`."""
        return self.loop.run(self.asynchronous.request(method, path, body, **options))

    def json(self, method: str, path: str, value: Any = None, **options: Any) -> dict[str, Any]:
        """See `AsyncHttp.json`."""
        return self.loop.run(self.asynchronous.json(method, path, value, **options))

    def lines(self, path: str, **options: Any) -> Iterator[str]:
        """See `AsyncHttp.lines`. Closing the iterator closes the connection."""
        return self.loop.iterate(self.asynchronous.lines(path, **options))


__all__ = ["DEADLINE_SECONDS", "Answer", "AsyncHttp", "Http", "Policy", "check_url"]
