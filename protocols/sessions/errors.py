"""Refusals of the session rules. Each text names the field and what would be right."""

from typing import Final

AUTHORITATIVE: Final = (
    "move the file aside and regenerate it, or, when a verified committed snapshot is authoritative, restore it with "
    "`moorage session restore`"
)


class SessionError(ValueError):
    """Base of the refusals of this package."""


class IdentityRefused(SessionError):
    """A campaign, session or run that is no portable segment. `field`, `value`, `fault`."""

    def __init__(self, field: str, value: str, fault: str, hint: str) -> None:
        super().__init__(f"{field} {value[:140]!r} cannot be used: {fault}. To migrate: {hint}")
        self.field = field
        self.value = value
        self.fault = fault


class UnsupportedState(SessionError):
    """A session manifest that is not loaded (spec session-manifest 5). `field` is where, `fault` what."""

    def __init__(self, field: str, fault: str, hint: str = AUTHORITATIVE) -> None:
        super().__init__(f"unsupported session manifest: {field}: {fault}. {hint[0].upper()}{hint[1:]}")
        self.field = field
        self.fault = fault


class IdentityDisagrees(SessionError):
    """The stored manifest belongs to another campaign or session than the configuration."""


class TransitionRefused(SessionError):
    """A stage event that its state does not admit (spec session-manifest 6)."""


class ResultRefused(SessionError):
    """A stage returned what a result may not hold."""


class PrefixRefused(SessionError):
    """A bounded execution whose excluded prefix is not complete. `stage` and `status` (None: no record)."""

    def __init__(self, stage: str, status: str | None) -> None:
        found = "has no record" if status is None else f"is {status}"
        super().__init__(
            f"stage {stage} {found}: an execution that starts later needs every earlier stage succeeded or skipped"
        )
        self.stage = stage
        self.status = status


class CollectionRefused(SessionError):
    """An analyze collection that breaks spec session-manifest 8."""


class ReadRefused(SessionError):
    """A remote document or object that the strict reader refuses (spec session-manifest 11).

    `kind`: `malformed`, `unsupported-version`, `identity-mismatch`, `missing-object` or `binding-mismatch`.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
