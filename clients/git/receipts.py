"""Dispatches between the action ledger's receipts, where the environment records (spec action-ledger 2, 7)."""

import os
import uuid
from collections.abc import Mapping
from typing import Any

from moorage.protocols.ledger.producers import is_enabled
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.vocabulary import Phase, SubjectKind

from ..errors import ConfigurationError
from ..ledger.recorder import Recorder
from .dispatch import Dispatch, DispatchRefused

ROOT = "CLAWSWEEPER_ACTION_LEDGER_ROOT"


class RecordedDispatch:
    """`inner` with an attempt receipt before it and an outcome after it; one effect a claim, however often tried."""

    def __init__(self, inner: Dispatch, recorder: Recorder, repository: str) -> None:
        self._inner = inner
        self._recorder = recorder
        self._repository = repository

    def __call__(self, claim_id: str, event: str, payload: dict[str, Any]) -> None:
        """Raises what `inner` raises, and ConfigurationError, before anything left, when nothing can be recorded."""
        try:
            receipts = self._recorder.mutation(
                phase=Phase.dispatch_lifecycle,
                identity={"claimId": claim_id, "try": uuid.uuid4().hex},
                idempotency_identity={"effect": "git intake dispatch", "claimId": claim_id},
                component="git-intake",
                subject={"repository": self._repository, "kind": SubjectKind.workflow},
                dispatch=True,
                rejected_on=(DispatchRefused,),
            )
            receipts.__enter__()
        except LedgerRefusal as refusal:
            raise ConfigurationError(f"the dispatch cannot be recorded: {refusal}") from None
        try:
            self._inner(claim_id, event, payload)
        except BaseException as error:
            receipts.__exit__(type(error), error, error.__traceback__)
            raise
        receipts.__exit__(None, None, None)


def recorded(inner: Dispatch, repository: str | None, environment: Mapping[str, str]) -> Dispatch:
    """`inner`, between receipts where `environment` records; `repository`: where it dispatches to, None for here."""
    if not is_enabled(environment):
        return inner
    root = environment.get(ROOT) or os.path.realpath(os.getcwd())
    subject = repository or environment.get("GITHUB_REPOSITORY", "")
    return RecordedDispatch(inner, Recorder(root, environment=environment), subject)
