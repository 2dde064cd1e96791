"""The recorded store calls (`*-store` areas): their steps, and the comparison of a result."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent.parent / "vectors" / "state-plane"


def sequences(area: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Name and steps of every sequence of `area`."""
    for sequence in json.loads((VECTORS / f"{area}.json").read_text())["sequences"]:
        yield sequence["name"], sequence["steps"]


def by_name(area: str) -> dict[str, list[dict[str, Any]]]:
    """The sequences of `area` by name, for parametrised tests."""
    return dict(sequences(area))
