"""Moving a lane to events: write both, choose what readers believe, compare (the seed's "Migration")."""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from moorage.protocols.ledger.canonical import Json
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.parity import Difference, ReaderMode, read_lane, reader_mode
from moorage.protocols.ledger.publication import lane_name

log = logging.getLogger(__name__)

T = TypeVar("T")


def lane_variable(lane: str) -> str:
    """Name of the variable that switches a lane's readers: `MOORAGE_LEDGER_READER_<LANE>`."""
    return "MOORAGE_LEDGER_READER_" + "".join(char if char.isalnum() else "_" for char in lane_name(lane)).upper()


def lane_mode(environment: Mapping[str, str], lane: str) -> ReaderMode:
    """Which state a lane's readers believe: legacy (default), both or events. Raises reader-mode."""
    return reader_mode(environment.get(lane_variable(lane)))


def dual_write(record: Callable[[], Event | None], write_legacy: Callable[[Event | None], T]) -> T:
    """Records the event, then writes the legacy projection with it, and returns what that returns.

    The event comes first because it is the source: a legacy projection that was not written can be rebuilt from it,
    an event that was not recorded cannot. Whatever either raises goes on to the caller; both may be run again.
    """
    return write_legacy(record())


def _warn(lane: str, found: list[Difference]) -> None:
    first = found[0]
    log.warning("lane %s: legacy state and events differ in %d places, first at %s", lane, len(found), first.pointer)


def read_view(
    environment: Mapping[str, str],
    lane: str,
    *,
    legacy: Callable[[], Json],
    events: Callable[[], Json],
    on_difference: Callable[[list[Difference]], object] | None = None,
) -> Json:
    """The lane's view under its switch. In mode `both`, differences are reported and the legacy view is returned."""
    return read_lane(
        lane_mode(environment, lane), legacy, events, on_difference or (lambda found: _warn(lane, found))
    )
