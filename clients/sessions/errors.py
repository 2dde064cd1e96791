"""What the session client raises beside the refusals of `moorage.protocols.sessions`."""

from ..errors import ClientError


class SessionFailure(ClientError):
    """Base: the text is fit for a person."""


class Refused(SessionFailure):
    """A rule of `moorage.protocols.sessions` refused; `__cause__` is the refusal itself."""


class SaveFailed(SessionFailure):
    """The manifest was not saved, or it is not known whether it was: load it again before the next save."""


class Busy(SessionFailure):
    """Another invocation, or another publisher, holds the lock; the text says which."""


class StageFailed(SessionFailure):
    """A stage failed. `stage`, `original`, and `saving`: the error of recording that, or None. Neither replaces the
    other (spec session-manifest 5).
    """

    def __init__(self, stage: str, original: BaseException, saving: BaseException | None = None) -> None:
        text = f"stage {stage} failed: {describe(original)}"
        if saving is not None:
            text += f"; and this could not be recorded: {describe(saving)}"
        super().__init__(text)
        self.stage = stage
        self.original = original
        self.saving = saving


class Interrupted(SessionFailure):
    """A cancellation was handled; `stage` is recorded as interrupted, None when none was running."""

    def __init__(self, stage: str | None, saving: BaseException | None = None) -> None:
        text = "interrupted between stages" if stage is None else f"stage {stage} was interrupted"
        if saving is not None:
            text += f"; and this could not be recorded: {describe(saving)}"
        super().__init__(text)
        self.stage = stage
        self.saving = saving


class CommandFailed(SessionFailure):
    """A command ended with another status than 0, or did not begin."""


class PublishRefused(SessionFailure):
    """A publication that was not made. `kind`: `lost-race`, `binding-mismatch`, `lease-lost` or `changed`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def describe(error: BaseException) -> str:
    """An error in one line, with its class unless its text was made for people."""
    text = str(error)
    if isinstance(error, ClientError | ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
