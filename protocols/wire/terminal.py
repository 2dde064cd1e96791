"""Refusals of the terminal finalization and progress routes, as far as they are recorded (spec 2.3)."""

from .base import WireError


class InvalidTerminalFinalizationAcknowledgement(WireError):
    """The finalization to be acknowledged is not named by its lease tuple, or is not one."""

    code, status = "invalid_terminal_finalization_acknowledgement", 400


class InvalidTerminalFinalizationRetry(WireError):
    """The finalization to be tried again is not named by its lease tuple, or is not one."""

    code, status = "invalid_terminal_finalization_retry", 400


class InvalidTerminalFinalizationSkip(WireError):
    """The finalization to be skipped is not named by its lease tuple, or is not one."""

    code, status = "invalid_terminal_finalization_skip", 400
