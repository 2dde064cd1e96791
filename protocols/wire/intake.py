"""Refusals of the command intake (spec state-plane-protocol 6)."""

from .base import WireError


class InvalidCommandIntake(WireError):
    """The comment version is malformed, or its members do not agree with each other."""

    code, status = "invalid_command_intake", 400
