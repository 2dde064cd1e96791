"""Errors and warnings, collected as one tree so that all of them are shown at once.

A node stands for a file, an environment or one binding. Codes are this project's own names; the wording is free.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["errors", "warnings"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning.

    `path` names the key (`r2_buckets[0].bucket_name`; `top-level:colour` for a key that is not known there), or
    is None where the message is about no single key. Below the heading of an environment or of a binding it is
    relative to that heading.
    """

    code: str
    path: str | None
    message: str


@dataclass(slots=True)
class Report:
    """A node of the tree: what was found about `heading`, and below it."""

    heading: str
    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    children: list["Report"] = field(default_factory=list)

    def error(self, code: str, path: str | None, message: str) -> None:
        """Adds an error here."""
        self.errors.append(Diagnostic(code, path, message))

    def warn(self, code: str, path: str | None, message: str) -> None:
        """Adds a warning here."""
        self.warnings.append(Diagnostic(code, path, message))

    def child(self, heading: str) -> "Report":
        """A new node below this one."""
        node = Report(heading)
        self.children.append(node)
        return node

    def walk(self, severity: Severity) -> Iterator[tuple[tuple[str, ...], Diagnostic]]:
        """All diagnostics of that severity in printing order, each with the headings above it."""
        for diagnostic in self.errors if severity == "errors" else self.warnings:
            yield (self.heading,), diagnostic
        for node in self.children:
            for headings, diagnostic in node.walk(severity):
                yield (self.heading, *headings), diagnostic

    @property
    def all_errors(self) -> list[Diagnostic]:
        """Every error of the tree."""
        return [diagnostic for _, diagnostic in self.walk("errors")]

    @property
    def all_warnings(self) -> list[Diagnostic]:
        """Every warning of the tree."""
        return [diagnostic for _, diagnostic in self.walk("warnings")]

    def render(self, severity: Severity) -> str:
        """The tree as text: the heading, a `- ` line for each message, nested headings; empty if there is nothing."""
        lines = self._lines(severity)
        return "\n".join(lines)

    def _lines(self, severity: Severity) -> list[str]:
        body: list[str] = []
        for diagnostic in self.errors if severity == "errors" else self.warnings:
            first, *rest = diagnostic.message.splitlines() or [""]
            body.append(f"- {first}")
            body.extend(f"  {line}".rstrip() for line in rest)
        for node in self.children:
            nested = node._lines(severity)
            if nested:
                body.append(f"- {nested[0]}")
                body.extend(f"  {line}" for line in nested[1:])
        return [self.heading, *(f"  {line}" if line else "" for line in body)] if body else []


class ConfigError(ValueError):
    """The configuration cannot be used. `report` holds every error and warning that was found."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.render("errors"))
        self.report = report
