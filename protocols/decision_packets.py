"""The writer of decision packets: what a report's packet becomes, and the two header fields that name it.

A packet is written only for a report whose header is unambiguous as a whole; keys that only the body has do not
matter. Where no packet is written, the stale one is removed. Its path comes from the report's real path and never
from a header field, which a spoofed report could point elsewhere (state storage, "Report readers").
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from .front_matter import parse, replace_field, set_in_header
from .records import MAX_RECORD_BYTES, RecordId, digest_of, packet_reference_holds

PATH_FIELD: Final = "decision_packet_path"
DIGEST_FIELD: Final = "decision_packet_sha256"
NONE: Final = "none"


class PacketRefusal(Enum):
    """Why a report gets no packet, although one was handed in; the value is a sentence for a log."""

    NO_HEADER = "the report has no header"
    AMBIGUOUS = "the report's header is ambiguous: a key is duplicated, or a block of the body competes for it"
    TOO_LARGE = "the packet is above the size of a record"
    UNREADABLE_REFERENCE = "the report's header would not name its packet to every reader"


@dataclass(frozen=True, slots=True)
class PacketPlan:
    """What to store: `report` text, and at `packet_path` the `packet` bytes, or a tombstone when they are None."""

    report: str = field(repr=False)
    packet_path: str
    packet: bytes | None = field(repr=False)
    refusal: PacketRefusal | None = None

    @property
    def removes_packet(self) -> bool:
        """Whether a packet that is stored at `packet_path` now is stale."""
        return self.packet is None


def plan_packet(report_id: RecordId, report: str, packet: bytes | None) -> PacketPlan:
    """Returns the plan for a report and the packet that belongs to it (None: it shall have none).

    The fields `decision_packet_path` and `decision_packet_sha256` are set to the packet's, or to `none` when the
    report has them and no packet is written; a report that the writer cannot change safely is returned as it is.
    Raises ValueError when `report_id` is no report (neither `items` nor `closed`).
    """
    if report_id.section not in ("items", "closed"):
        raise ValueError(f"{report_id.path}: only reports of items and closed have decision packets")
    path = RecordId(report_id.slug, "decision-packets", report_id.id).path
    if packet is None:
        return PacketPlan(_without_reference(report, path), path, None)
    refusal = _refusal(report, packet)
    if refusal is not None:
        return PacketPlan(_without_reference(report, path), path, None, refusal)
    digest = digest_of(packet)
    written = replace_field(replace_field(report, DIGEST_FIELD, digest), PATH_FIELD, path)
    header = parse(written)
    readable = header.decoded(DIGEST_FIELD).value == digest and header.decoded(PATH_FIELD).value == path
    if not readable or not packet_reference_holds(written, path, digest):
        return PacketPlan(_without_reference(report, path), path, None, PacketRefusal.UNREADABLE_REFERENCE)
    return PacketPlan(written, path, packet)


def _refusal(report: str, packet: bytes) -> PacketRefusal | None:
    header = parse(report)
    if not header.has_header:
        return PacketRefusal.NO_HEADER
    if header.ambiguous:
        return PacketRefusal.AMBIGUOUS
    return PacketRefusal.TOO_LARGE if len(packet) > MAX_RECORD_BYTES else None


def _without_reference(report: str, path: str) -> str:
    """Sets the fields that the header has to `none`, if every reader then sees that there is no packet."""
    if not {PATH_FIELD, DIGEST_FIELD} & {key for key, _ in parse(report).fields}:
        return report
    cleared = set_in_header(set_in_header(report, DIGEST_FIELD, NONE), PATH_FIELD, NONE)
    return cleared if packet_reference_holds(cleared, path, None) else report
