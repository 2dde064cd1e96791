"""The queue object over a code host in memory, for tests that look at what it ordered."""

from typing import Any

from moorage.durable_objects.objects.codehost.local import RecordingCodeHost
from moorage.durable_objects.objects.exact_review_queue import ExactReviewQueue


def queue_over(host: RecordingCodeHost) -> type[ExactReviewQueue]:
    """A class of the queue object whose instances all use `host`, whatever the settings say."""

    class LocalQueue(ExactReviewQueue):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            self.codehost = host

    return LocalQueue
