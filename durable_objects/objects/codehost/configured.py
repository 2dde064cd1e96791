"""Which code host the settings name."""

from collections.abc import Callable
from typing import Any

from moorage.protocols.queue.settings import DEFAULT_REPOSITORY

from .contract import CodeHost


def configured_code_host(env: Any, now: Callable[[], int]) -> CodeHost | None:
    """The GitHub App where its id and key are set, else EXACT_REVIEW_DISPATCH_URL, else
    EXACT_REVIEW_DISPATCH_COMMAND, else None.

    Without a code host events are kept and nothing is handed out. Raises ValueError for an empty command.
    """

    def variable(name: str) -> str:
        value = getattr(env, name, None)
        return value.strip() if isinstance(value, str) else ""

    app, key = variable("CLAWSWEEPER_APP_ID"), variable("CLAWSWEEPER_APP_PRIVATE_KEY")
    if app and key:
        from .github import DEFAULT_API_URL, GitHubCodeHost

        repository = variable("CLAWSWEEPER_REPO") or DEFAULT_REPOSITORY
        return GitHubCodeHost(app, key, repository, now, variable("GITHUB_API_URL") or DEFAULT_API_URL)
    from .local import CommandCodeHost, WebhookCodeHost

    if url := variable("EXACT_REVIEW_DISPATCH_URL"):
        return WebhookCodeHost(url, variable("CLAWSWEEPER_WEBHOOK_SECRET"))
    if command := variable("EXACT_REVIEW_DISPATCH_COMMAND"):
        return CommandCodeHost(command)
    return None
