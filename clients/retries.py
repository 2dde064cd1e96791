"""When a request is sent again, and how long to wait before: values in, decisions out."""

import email.utils
import math
from dataclasses import dataclass
from datetime import UTC

from .errors import ClientError, ConfigurationError

DEADLINE_SECONDS = 15.0
ATTEMPTS = 4
MAX_RETRY_AFTER_SECONDS = 120.0
_DOUBLINGS = 32
"""Beyond so many no wait is below any bound that somebody would set, and powers of two stay numbers."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When to try again, and how long an attempt may take, in seconds.

    `backoff` doubles with each attempt, up to `max_backoff`; the wait is between half of that and all of it. A
    `Retry-After` of more than `max_retry_after` ends the attempts. Raises ConfigurationError for times that are not
    numbers from 0 and for no attempt at all.
    """

    deadline: float = DEADLINE_SECONDS
    attempts: int = ATTEMPTS
    backoff: float = 0.25
    max_backoff: float = 8.0
    max_retry_after: float = MAX_RETRY_AFTER_SECONDS

    def __post_init__(self) -> None:
        if not (0 < self.deadline < math.inf) or self.attempts < 1:
            raise ConfigurationError("a deadline is more than 0 seconds, attempts at least 1")
        if not all(0 <= seconds < math.inf for seconds in (self.backoff, self.max_backoff, self.max_retry_after)):
            raise ConfigurationError("backoff, max_backoff and max_retry_after are seconds from 0")

    def wait(self, attempt: int, chance: float) -> float:
        """Seconds to wait after attempt number `attempt`, from 1; `chance` in 0..1."""
        return min(self.max_backoff, self.backoff * 2.0 ** min(attempt - 1, _DOUBLINGS)) * (0.5 + chance / 2)


class Retryable(Exception):
    """An attempt failed in a way that another may not; `error` is what it comes to when it was the last."""

    def __init__(self, error: ClientError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Seconds to wait by a `Retry-After` of seconds or of a date; None when there is none that can be read.

    Dates are in any of the three forms of RFC 9110 5.6.7, all of them GMT, whatever this machine's zone is.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
