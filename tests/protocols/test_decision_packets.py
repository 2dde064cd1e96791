"""The decision-packet writer: the header names the packet, ambiguity refuses it, stale ones go by the real path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.decision_packets import PacketRefusal, plan_packet
from moorage.protocols.front_matter import parse
from moorage.protocols.records import MAX_RECORD_BYTES, RecordId, digest_of, packet_reference_holds

REPORT = RecordId("acme-widgets", "items", "7")
PACKET_PATH = "records/acme-widgets/decision-packets/7.json"


def test_the_report_names_its_packet() -> None:
    plan = plan_packet(REPORT, "---\nnumber: 7\n---\n\nbody\n", b"{}\n")

    assert (plan.packet_path, plan.packet, plan.refusal) == (PACKET_PATH, b"{}\n", None)
    header = parse(plan.report)
    assert header.decoded("decision_packet_sha256").value == digest_of(b"{}\n")
    assert header.decoded("decision_packet_path").value == PACKET_PATH
    assert packet_reference_holds(plan.report, PACKET_PATH, digest_of(b"{}\n"))


@pytest.mark.parametrize(
    ("report", "refusal"),
    [
        ("body\n", PacketRefusal.NO_HEADER),
        ("---\nnumber: 7\nlabel: a\nlabel: a\n---\n", PacketRefusal.AMBIGUOUS),
        ("---\nnumber: 7\n---\nnumber: 8\n---\n", PacketRefusal.AMBIGUOUS),
        ("---\nnumber: 7\n---\n\ntext\n\n---\nnumber: 8\n---\n", PacketRefusal.AMBIGUOUS),
        ("---\nnumber: 7\n---\n\ndecision_packet_path: x\n", PacketRefusal.UNREADABLE_REFERENCE),
    ],
)
def test_an_ambiguous_report_gets_no_packet_and_loses_a_stale_one(report: str, refusal: PacketRefusal) -> None:
    plan = plan_packet(REPORT, report, b"{}")

    assert plan.refusal is refusal
    assert plan.report == report
    assert plan.removes_packet
    assert plan.packet_path == PACKET_PATH


@pytest.mark.parametrize(
    "fields",
    [
        [f"decision_packet_sha256: {'0' * 64}"] * 2 + [f"decision_packet_path: {PACKET_PATH}"],
        [f"decision_packet_sha256: {'0' * 64}"] + [f"decision_packet_path: {PACKET_PATH}"] * 3,
        ["decision_packet_sha256: none", f"decision_packet_sha256: {'0' * 64}"],
        [f"decision_packet_path: {PACKET_PATH}", "label: a", "label: a"],
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_ambiguous_report_that_names_a_stale_packet_can_be_stored_without_it(fields: list[str], end: str) -> None:
    body = ["", "decision_packet_path: quoted", ""]
    report = end.join(["---", "number: 7", *fields, "---", *body])
    plan = plan_packet(REPORT, report, b"{}")

    assert (plan.refusal, plan.packet) == (PacketRefusal.AMBIGUOUS, None)
    assert packet_reference_holds(plan.report, PACKET_PATH, None)
    assert plan.report.endswith(end.join(["---", *body]))
    assert "0" * 64 not in plan.report


def test_keys_that_only_the_body_has_do_not_matter() -> None:
    report = "---\nnumber: 7\n---\nlabel: x\n---\nother: y\n"

    assert plan_packet(REPORT, report, b"{}").refusal is None


def test_a_spoofed_path_moves_nothing() -> None:
    other = "records/acme-widgets/decision-packets/8.json"
    report = f"---\nnumber: 8\ndecision_packet_path: {other}\ndecision_packet_sha256: 0\n---\n"
    plan = plan_packet(RecordId("acme-widgets", "closed", "7"), report, None)

    assert plan.packet_path == PACKET_PATH
    assert packet_reference_holds(plan.report, PACKET_PATH, None)


def test_a_report_without_packet_and_reference_is_left_alone() -> None:
    report = "---\nnumber: 7\n---\nbody\n"

    assert plan_packet(REPORT, report, None).report == report


def test_a_packet_above_the_size_of_a_record_is_refused() -> None:
    plan = plan_packet(REPORT, "---\nnumber: 7\n---\n", b"x" * (MAX_RECORD_BYTES + 1))

    assert plan.refusal is PacketRefusal.TOO_LARGE


def test_only_reports_have_packets() -> None:
    with pytest.raises(ValueError, match="only reports"):
        plan_packet(RecordId("acme-widgets", "plans", "7"), "x", b"{}")


@given(
    st.lists(st.sampled_from(["number: 7", "label: x", "---", "", "decision_packet_path: y", "text"]), max_size=10)
)
def test_every_plan_satisfies_the_store(lines: list[str]) -> None:
    report = "\n".join(["---", *lines, ""])
    plan = plan_packet(REPORT, report, b"{}")

    if plan.refusal is None:
        assert packet_reference_holds(plan.report, PACKET_PATH, digest_of(b"{}"))
    else:
        assert plan.packet is None
