"""The target gate: which repositories the service may act on (spec state-plane-protocol 2.6).

Without a code host there is nobody to ask, and what was signed is trusted.
"""

from typing import Final

from moorage.protocols.wire.queue import PrivateTargetUnsupported, TargetVisibilityUnverified

from ...runtime.outgoing import outgoing
from ..codehost.contract import CodeHostError, Visibility
from .base import QueueBase

PUBLIC_MS: Final = 10 * 60_000
PRIVATE_MS: Final = 60_000
RETRY_AFTER_SECONDS: Final = 60
MAX_KNOWN: Final = 2_000


class GateMethods(QueueBase):
    """Asks the code host once in a while and remembers the answer."""

    async def pass_gate(self, repository: str) -> None:
        """Returns for a public repository.

        Raises PrivateTargetUnsupported for one that is not, TargetVisibilityUnverified when it cannot be learned now.
        """
        host, now = self.codehost, self.now()
        if host is None or not self.settings.check_visibility:
            return
        name = repository.lower()
        known = self.visibilities.get(name)
        if known is None or known[1] <= now:
            try:
                visibility: Visibility = await outgoing(lambda: host.visibility(repository))
            except CodeHostError:
                visibility = "unknown"
            known = (visibility, now + (PUBLIC_MS if visibility == "public" else PRIVATE_MS))
            if visibility != "unknown":
                if len(self.visibilities) >= MAX_KNOWN:
                    self.visibilities.clear()
                self.visibilities[name] = known
        if known[0] == "private":
            raise PrivateTargetUnsupported
        if known[0] == "unknown":
            raise TargetVisibilityUnverified(retryable=True, headers={"retry-after": str(RETRY_AFTER_SECONDS)})
