"""Targets of several kinds under one resolver, and the kind that is a canonical record of the state plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.protocols.jobs.catalogue import Body, Target
from moorage.protocols.jobs.hashes import text_hash
from moorage.protocols.jobs.ports import TargetResolver
from moorage.protocols.jobs.records import parse_record, record_target

from ..errors import ClientError
from .transport import Transport


class JoinedTargets:
    """Files, and other kinds by the prefix of their path. A fan-out reaches files only."""

    def __init__(self, files: TargetResolver, others: Mapping[str, TargetResolver]) -> None:
        self._files = files
        self._others = dict(others)

    def _of(self, path: str) -> TargetResolver:
        return next((other for prefix, other in self._others.items() if path.startswith(prefix)), self._files)

    def get(self, path: str) -> Target | None:
        """The target, by whoever knows such paths."""
        return self._of(path).get(path)

    def list(self) -> Sequence[Target]:
        """The files."""
        return self._files.list()

    def read_body(self, path: str) -> Body:
        """The body as it is now."""
        return self._of(path).read_body(path)

    def body_hash(self, text: str) -> str:
        """SHA-256; every kind here has the same."""
        return self._files.body_hash(text)

    def issues(self, path: str, analyzer_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Issues of the target."""
        return self._of(path).issues(path, analyzer_ids)


class RecordTargets:
    """Canonical records, `record:<slug>/<section>/<number>`, read over signed HTTP when they are asked for.

    A record has no stored copy to drift from: the target is what the state plane holds now. When it moves between
    the look and the read of its body, the drift check refuses, as for a file.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, path: str) -> Target | None:
        """The live record, None when there is none. Raises `ClientError` when the state plane cannot be asked."""
        name = parse_record(path)
        content = self._content(path)
        return None if name is None or content is None else record_target(path, name, content)

    def _content(self, path: str) -> str | None:
        name = parse_record(path)
        return None if name is None else self._transport.record_text(name.path)

    def list(self) -> Sequence[Target]:
        """Nothing: records are named one by one."""
        return []

    def read_body(self, path: str) -> Body:
        """The record's whole text, header included."""
        try:
            content = self._content(path)
        except ClientError as error:
            return Body(None, str(error))
        return Body(None, "the record is gone") if content is None else Body(content)

    def body_hash(self, text: str) -> str:
        """SHA-256 of the text."""
        return text_hash(text)

    def issues(self, path: str, analyzer_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """None: nobody analyses records."""
        return []
