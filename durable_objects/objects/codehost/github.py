"""GitHub over its REST API, as an App: RS256 tokens, conditional reads, rate limits.

The base address is `GITHUB_API_URL`; credentials are `CLAWSWEEPER_APP_ID` and `CLAWSWEEPER_APP_PRIVATE_KEY`.
Every request has a
deadline. A request that went out without an answer is told apart from one that never left.
"""

import re
import ssl
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx
import jwt

from moorage.protocols.intake.versions import CommandIntake
from moorage.protocols.ledger.canonical import sha256_text
from moorage.protocols.queue.decisions import Decision
from moorage.protocols.queue.times import parse_time

from .contract import Acknowledgement, CodeHostError, Comment, Run, Target, Visibility

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

DEFAULT_API_URL: Final = "https://api.github.com"
API_VERSION: Final = "2022-11-28"
TIMEOUT_SECONDS: Final = 15.0
JWT_LIFETIME_SECONDS: Final = 540
TOKEN_MARGIN_MS: Final = 60_000
MAX_CONDITIONAL: Final = 256
MAX_COMMENT_PAGES: Final = 10
USER_AGENT: Final = "moorage-state-plane"
_SECONDS: Final = re.compile(r"[0-9]{1,12}")


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _path(repository: str, *parts: str | int) -> str:
    segments = [*repository.split("/"), *map(str, parts)]
    return "/repos/" + "/".join(quote(segment, safe="") for segment in segments)


class GitHubCodeHost:
    """One App on one API. `now` gives milliseconds; `repository` is where work is dispatched to."""

    asks_nobody = False
    acknowledgements: tuple[Acknowledgement, ...] = ("reaction", "status_comment")

    def __init__(
        self,
        app_id: str,
        private_key: str,
        repository: str,
        now: Callable[[], int],
        api_url: str = DEFAULT_API_URL,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._app_id = app_id
        self._private_key = private_key.replace("\\n", "\n")
        self._key: RSAPrivateKey | None = None
        self._repository = repository
        self._now = now
        self._api_url = api_url.rstrip("/")
        self._transport = transport
        self._tokens: dict[str, tuple[str, int]] = {}
        self._seen: OrderedDict[str, tuple[str, Any]] = OrderedDict()

    def __repr__(self) -> str:
        return f"GitHubCodeHost(app {self._app_id}, {self._api_url})"

    async def workflow_state(self, workflow: str) -> str:
        """See the contract."""
        path = _path(self._repository, "actions", "workflows", workflow)
        return str((await self._read(self._repository, path)).get("state") or "unknown")

    async def visibility(self, repository: str) -> Visibility:
        """See the contract. A repository that the App cannot see is private to it."""
        try:
            found = await self._read(repository, _path(repository))
        except CodeHostError as error:
            if error.status in {404, 451}:
                return "private"
            raise
        if found.get("private") is True or found.get("visibility") in {"private", "internal"}:
            return "private"
        return "public" if found.get("private") is False else "unknown"

    async def target(self, decision: Decision) -> Target:
        """See the contract."""
        kind = "pulls" if decision.item_kind == "pull_request" else "issues"
        try:
            found = await self._read(decision.target_repo, _path(decision.target_repo, kind, decision.item_number))
        except CodeHostError as error:
            if error.status in {404, 410}:
                return Target("missing")
            raise
        head = found.get("head")
        sha = head.get("sha") if isinstance(head, dict) else None
        return Target(
            "open" if found.get("state") == "open" else "closed",
            sha if isinstance(sha, str) else None,
            found.get("updated_at"),
            found.get("draft"),
        )

    async def comment(self, intake: CommandIntake) -> Comment | None:
        """See the contract."""
        repository = intake.decision.target_repo
        try:
            found = await self._read(repository, _path(repository, "issues", "comments", intake.source_comment_id))
        except CodeHostError as error:
            if error.status in {404, 410}:
                return None
            raise
        number = str(found.get("issue_url") or "").rpartition("/")[2]
        digest = sha256_text(str(found.get("body") or ""))
        return Comment(int(number) if number.isdecimal() else 0, digest, parse_time(found.get("updated_at")))

    async def run(self, run_id: str, attempt: int | None) -> Run | None:
        """See the contract."""
        parts: tuple[str | int, ...] = () if attempt is None else ("attempts", attempt)
        try:
            found = await self._read(self._repository, _path(self._repository, "actions", "runs", run_id, *parts))
        except CodeHostError as error:
            if error.status == 404:
                return None
            raise
        number = found.get("run_attempt")
        return Run(
            number if isinstance(number, int) else attempt or 1,
            found.get("status") == "completed",
            found.get("conclusion"),
        )

    async def dispatch(self, event_type: str, payload: dict[str, Any]) -> None:
        """See the contract: a repository dispatch."""
        body = {"event_type": event_type, "client_payload": payload}
        await self._request("POST", self._repository, _path(self._repository, "dispatches"), body)

    async def is_acknowledged(self, intake: CommandIntake, part: Acknowledgement) -> bool:
        """See the contract: the status comment is found by its marker; a reaction made twice is one reaction."""
        decision = intake.decision
        if part == "reaction":
            return False
        if isinstance(decision.status_comment_id, int):
            return True
        marker, since = str(decision.command_status_marker), intake.source_comment_updated_at
        return await self._has_comment(decision.target_repo, decision.item_number, marker, since)

    async def acknowledge(self, intake: CommandIntake, part: Acknowledgement) -> None:
        """See the contract: a reaction on the command, and one status comment."""
        decision = intake.decision
        repository = decision.target_repo
        if part == "reaction":
            path = _path(repository, "issues", "comments", intake.source_comment_id, "reactions")
            body = {"content": "eyes"}
        else:
            path = _path(repository, "issues", decision.item_number, "comments")
            body = {"body": f"{decision.command_status_marker}\nA new review was requested and is queued."}
        await self._request("POST", repository, path, body)

    async def _has_comment(self, repository: str, number: int, marker: str, since: str) -> bool:
        path = _path(repository, "issues", number, "comments")
        for page in range(1, MAX_COMMENT_PAGES + 1):
            query = f"?per_page=100&page={page}&since={quote(since, safe='')}"
            entries = _json(await self._request("GET", repository, path + query))
            if not isinstance(entries, list):
                raise CodeHostError(f"GET {path}: a JSON array was expected", 200)
            if any(marker in str(entry.get("body")) for entry in entries if isinstance(entry, dict)):
                return True
            if len(entries) < 100:
                return False
        return False

    async def _read(self, repository: str, path: str) -> dict[str, Any]:
        """A conditional GET: what GitHub answers 304 to costs nothing of the rate limit."""
        known = self._seen.get(path)
        headers = {"if-none-match": known[0]} if known else {}
        response = await self._request("GET", repository, path, headers=headers)
        if response.status_code == 304 and known is not None:
            self._seen.move_to_end(path)
            value = known[1]
        else:
            value = _json(response)
            if etag := response.headers.get("etag"):
                self._seen[path] = (etag, value)
                self._seen.move_to_end(path)
                while len(self._seen) > MAX_CONDITIONAL:
                    self._seen.popitem(last=False)
        if not isinstance(value, dict):
            raise CodeHostError(f"GET {path}: a JSON object was expected", response.status_code)
        return value

    async def _request(
        self, method: str, repository: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            token = await self._token(repository)
        except CodeHostError as error:
            # what was ordered has not left: only its token was asked for
            error.perhaps_done = False
            raise
        try:
            return await self._send(method, path, token, body, headers)
        except CodeHostError as error:
            if error.status == 401:
                # revoked before its time: the next request asks for another
                self._tokens.pop(repository.lower(), None)
            raise

    async def _token(self, repository: str) -> str:
        """The installation token of a repository's owner, kept until a minute before it ends."""
        held = self._tokens.get(repository.lower())
        if held is not None and held[1] - TOKEN_MARGIN_MS > self._now():
            return held[0]
        app = self._app_token()
        installation = _object(await self._send("GET", _path(repository, "installation"), app))
        number = installation.get("id")
        if not isinstance(number, int):
            raise CodeHostError(f"the installation of {repository} has no id", 200)
        granted = _object(await self._send("POST", f"/app/installations/{number}/access_tokens", app, {}))
        token, ends = granted.get("token"), parse_time(granted.get("expires_at"))
        if not isinstance(token, str):
            raise CodeHostError(f"no token was granted for {repository}", 200)
        self._tokens[repository.lower()] = (token, ends if ends is not None else self._now() + 10 * TOKEN_MARGIN_MS)
        return token

    def _app_token(self) -> str:
        seconds = self._now() // 1000
        claims = {"iat": seconds - 60, "exp": seconds + JWT_LIFETIME_SECONDS, "iss": self._app_id}
        return jwt.encode(claims, self._loaded_key(), algorithm="RS256")

    def _loaded_key(self) -> "RSAPrivateKey":
        """The App's key, read from its text once: that takes tens of milliseconds, a signature one."""
        if self._key is None:
            from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

            try:
                key = jwt.get_algorithm_by_name("RS256").prepare_key(self._private_key)
            except (ValueError, TypeError, jwt.PyJWTError):
                key = None
            if not isinstance(key, RSAPrivateKey):
                raise CodeHostError("CLAWSWEEPER_APP_PRIVATE_KEY is no RSA private key in PEM form", 401)
            self._key = key
        return self._key

    async def _send(
        self, method: str, path: str, token: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        sent = {
            "accept": "application/vnd.github+json",
            "authorization": f"Bearer {token}",
            "user-agent": USER_AGENT,
            "x-github-api-version": API_VERSION,
            **(headers or {}),
        }
        try:
            async with httpx.AsyncClient(
                timeout=TIMEOUT_SECONDS, transport=self._transport, verify=_tls(), trust_env=False
            ) as client:
                response = await client.request(method, self._api_url + path, json=body, headers=sent)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise CodeHostError(f"{method} {path}: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            raise CodeHostError(f"{method} {path}: {type(error).__name__}", perhaps_done=True) from None
        if response.status_code >= 400 or (response.is_redirect and response.status_code != 304):
            raise self._refusal(method, path, response)
        return response

    def _refusal(self, method: str, path: str, response: httpx.Response) -> CodeHostError:
        body = _json(response, quiet=True)
        message = body.get("message") if isinstance(body, dict) else None
        after, remaining = response.headers.get("retry-after"), response.headers.get("x-ratelimit-remaining")
        return CodeHostError(
            f"{method} {path}: {response.status_code} {message or ''}".rstrip(),
            response.status_code,
            body,
            self._retry_at(response.headers, remaining),
            after,
            remaining,
        )

    def _retry_at(self, headers: httpx.Headers, remaining: str | None) -> int | None:
        after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
        if _SECONDS.fullmatch(after):
            return self._now() + int(after) * 1000
        if remaining == "0" and _SECONDS.fullmatch(reset):
            return int(reset) * 1000
        return None


def _json(response: httpx.Response, quiet: bool = False) -> Any:
    try:
        return response.json()
    except ValueError:
        if quiet:
            return None
        raise CodeHostError("the answer is no JSON", response.status_code) from None


def _object(response: httpx.Response) -> dict[str, Any]:
    value = _json(response)
    if not isinstance(value, dict):
        raise CodeHostError("a JSON object was expected", response.status_code)
    return value
