"""Canonical JSON: the recorded cases are in tests/contract; here are its laws."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.ledger import canonical
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import json_values


def _is_plain(value: Any) -> bool:
    try:
        canonical.check(value)
    except LedgerRefusal:
        return False
    return True


@given(json_values.filter(_is_plain))
def test_parsing_canonical_text_gives_the_same_text(value: Any) -> None:
    text = canonical.canonical_text(value)
    assert canonical.canonical_text(canonical.parse_json(text)) == text
    text.encode()


@given(json_values.filter(_is_plain))
def test_both_writers_write_the_same(value: Any) -> None:
    assert canonical._write(value) == canonical.canonical_text(value)


@given(st.dictionaries(st.text(), st.integers(0, 9), max_size=8).filter(_is_plain))
def test_keys_are_sorted_by_their_bytes(value: dict[str, int]) -> None:
    keys = list(json.loads(canonical.canonical_text(value)))
    assert keys == sorted(keys, key=str.encode)


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer()))
def test_numbers_read_back(value: float) -> None:
    text = canonical.number_text(value)
    assert float(text) == value
    assert "+" not in text
    assert ("e" in text) == (abs(value) < 1e-6)


@given(st.text(st.characters(codec=None)))
def test_strings_quote_to_valid_utf8(text: str) -> None:
    quoted = canonical.quote(text)

    def paired(value: str) -> str:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    assert paired(json.loads(quoted.encode().decode())) == paired(text)
    assert canonical.quoted_bytes(text) == len(quoted.encode())


@pytest.mark.parametrize(
    "value",
    [(), {1: 2}, b"", {"a": {3}}, object(), [float("nan")], -0.0, [2**53], 1e300, {"\ud800": 1}],
)
def test_what_is_no_plain_json_is_refused(value: Any) -> None:
    with pytest.raises(LedgerRefusal):
        canonical.canonical_text(value)


def test_cycles_and_deep_nesting_do_not_recurse() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(LedgerRefusal, match="depth"):
        canonical.canonical_text(loop)
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(LedgerRefusal, match="depth"):
        canonical.canonical_text(deep)
    while deep:
        deep = deep.pop()
    with pytest.raises(LedgerRefusal, match="depth"):
        canonical.parse_json("[" * 200_000 + "]" * 200_000)


@given(st.text("abctokenpassword_- .", max_size=20))
def test_identity_mode_only_adds_refusals(key: str) -> None:
    plain = canonical.canonical_text({key: 1})
    if canonical.is_credential_name(key):
        with pytest.raises(LedgerRefusal, match="credential-field"):
            canonical.canonical_text([{key: 1}], identity=True)
    else:
        assert canonical.canonical_text({key: 1}, identity=True) == plain
