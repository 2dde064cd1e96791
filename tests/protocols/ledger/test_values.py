"""Value rules: quick answers agree with the full ones, and normal forms are stable."""

import re
import string
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.ledger import timestamps
from moorage.protocols.ledger.confidential import is_confidential, is_confidential_by_every_rule
from moorage.protocols.ledger.hosts import short_ipv6
from moorage.protocols.ledger.paths import data_path, path_piece, spool_path
from moorage.protocols.ledger.producers import ident
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.text import event_key_text, machine_text, repository_text, scope_text
from moorage.protocols.ledger.urls import run_url

from .support import machine_texts

# Pieces that the rules look for, so that random joins come near them.
PIECES = re.findall(
    r"\S+",
    """
    gho_ ghp_ github_pat_ sk- npm_ xoxb- akia ASIA eyJ .eyJ bearer Authorization api_key access-token client_secret
    cloudflare token basic : + - / // . @ % %20 file: https:// http: ftp: wss: w: localhost .local .internal corp
    lan home.arpa intranet. internal. 10. 127. 192.168. 172.16. 100.64. 169.254. 0 1 255 0x7f 0177 :: ffff: fc00: fe80
    ::1 a b users home private tmp C: c:/ records/ x 12345678 abcdefgh YWxhZGRpbjpvcGVu user user@ example.com
    """,
)
_ANY = st.text(string.ascii_letters + string.digits + "_.:/@+-%\\= ", max_size=4)
joined = st.lists(st.sampled_from(PIECES) | _ANY)


@given(joined.map("".join))
def test_the_quick_answer_on_confidentiality_is_the_full_one(value: str) -> None:
    assert is_confidential(value) == is_confidential_by_every_rule(value)


@given(st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", fullmatch=True, alphabet="0123456789-T:.Z"))
def test_a_point_in_time_is_not_confidential(value: str) -> None:
    assert not is_confidential(value)
    assert not is_confidential_by_every_rule(value)


@given(machine_texts)
def test_the_quick_answer_on_machine_text_is_the_full_one(value: str) -> None:
    assert is_confidential(value) == is_confidential_by_every_rule(value)


@pytest.mark.parametrize("rule", [machine_text, scope_text, repository_text, data_path, run_url, event_key_text])
@given(value=joined.map("".join) | st.text())
def test_normal_forms_are_accepted_as_they_are(rule: Callable[[str], str], value: str) -> None:
    try:
        normal = rule(value)
    except LedgerRefusal:
        return
    assert rule(normal) == normal
    assert normal.isascii()


@given(st.text(min_size=1), st.integers(20, 128))
def test_path_pieces_are_portable(value: str, limit: int) -> None:
    piece = path_piece(value, limit)
    assert 1 <= len(piece) <= limit
    assert set(piece) <= set(string.ascii_letters + string.digits + "_.-")
    assert not piece.endswith(".")


@given(st.text(), st.integers(20, 128))
def test_idents_are_bounded_and_stable(value: str, limit: int) -> None:
    try:
        name = ident(value, limit)
    except LedgerRefusal:
        return
    assert 1 <= len(name) <= limit
    assert ident(name, limit) == name


def test_equal_slugs_have_different_folders() -> None:
    assert spool_path("a/b-c", "0" * 64) != spool_path("a-b/c", "0" * 64)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-1439, 1439))
def test_instants_agree_with_the_calendar(moment: datetime, offset: int) -> None:
    sign, minutes = "+" if offset >= 0 else "-", abs(offset)
    text = f"{moment.isoformat(timespec='microseconds')}{sign}{minutes // 60:02}:{minutes % 60:02}"
    seconds, fraction = timestamps.instant(text)
    expected = (moment - timedelta(minutes=offset)).replace(tzinfo=UTC)
    whole = expected.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)
    assert seconds == whole.days * 86_400 + whole.seconds
    assert int(f"{fraction:0<6}" or 0) == expected.microsecond
    assert timestamps.civil_date(seconds // 86_400) == (expected.year, expected.month, expected.day)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_the_writers_clock_reads_back(milliseconds: int) -> None:
    text = timestamps.timestamp_text(timestamps.millisecond_text(milliseconds))
    seconds, fraction = timestamps.instant(text)
    assert seconds * 1000 + int(f"{fraction:0<3}") == milliseconds


@given(st.integers(0, 2**128 - 1))
def test_short_ipv6_has_no_dotted_tail_and_reads_back(number: int) -> None:
    import ipaddress

    address = ipaddress.IPv6Address(number)
    short = short_ipv6(address.exploded)
    assert short is not None
    assert "." not in short
    assert ipaddress.IPv6Address(short) == address
    assert short_ipv6(short) == short
