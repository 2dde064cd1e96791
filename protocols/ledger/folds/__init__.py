"""Views of the history: five deterministic folds over events.

Each fold is a pure function of a set of events: their order and repetition do not matter, and the result is a JSON
value whose canonical text is the same wherever it is built. A view is never the source of truth, and truncating one
deletes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from ..events import Event
from .commands import command_states
from .evidence import evidence_graph
from .notifications import notification_deliveries
from .reviews import review_histories
from .timing import status_and_timing

Fold = Callable[[Iterable[Event]], dict[str, Any]]

FOLDS: Final[Mapping[str, Fold]] = MappingProxyType(
    {
        "reviews": review_histories,
        "commands": command_states,
        "notifications": notification_deliveries,
        "evidence": evidence_graph,
        "timing": status_and_timing,
    }
)

__all__ = [
    "FOLDS",
    "Fold",
    "command_states",
    "evidence_graph",
    "notification_deliveries",
    "review_histories",
    "status_and_timing",
]
