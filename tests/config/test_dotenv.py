"""The dotenv syntax and its references."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.wrangler_compat.config.dotenv import expand, parse_dotenv

NAMES = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(NAMES, TEXT, max_size=5), st.sampled_from("'`"))
def test_literal_quotes_keep_everything(values: dict[str, str], quote: str) -> None:
    kept = {name: value.replace(quote, "").removesuffix("\\") for name, value in values.items()}
    text = "".join(f"{name}={quote}{value}{quote}\n" for name, value in kept.items())
    assert parse_dotenv(text) == kept


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for name, value in expand(parse_dotenv(text), {"HOME": "/h"}).items():
        assert name
        assert isinstance(value, str)


@given(st.dictionaries(NAMES, TEXT, max_size=5), st.dictionaries(NAMES, TEXT, max_size=3))
def test_values_without_a_dollar_are_not_changed(values: dict[str, str], environment: dict[str, str]) -> None:
    plain = {name: value.replace("$", "") for name, value in values.items()}
    expanded = expand(plain, environment)
    assert list(expanded) == list(plain)
    assert expanded == {name: environment.get(name) or value for name, value in plain.items()}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=1", {"A": "1"}),
        ("A = b c \t", {"A": "b c"}),
        ("export A=1\nexport\tB=2\nexport=3", {"A": "1", "B": "2", "export": "3"}),
        ("A: b\nB:c\nC : d", {"A": "b"}),
        ("A.B-C=1", {"A.B-C": "1"}),
        ("A=a#b", {"A": "a"}),
        ("A=#b", {"A": ""}),
        ('A="a#b" # c', {"A": "a#b"}),
        ("A='a' b", {"A": "'a' b"}),
        ("A='a' 'b'", {"A": "a' 'b"}),
        ('A="a', {"A": '"a'}),
        ('A="a\nB="x"', {"A": '"a', "B": "x"}),
        ('A="a\\"b"', {"A": 'a\\"b'}),
        ('A="a\\"', {"A": "a\\"}),
        ("A='a\\nb'\nB=\"a\\nb\\rc\\td\"\nC=a\\nb", {"A": "a\\nb", "B": "a\nb\rc\\td", "C": "a\\nb"}),
        ("A=`a'\"b`", {"A": "a'\"b"}),
        ("A='1\n2'\nB=3", {"A": "1\n2", "B": "3"}),
        ("A=1\r\nB=2\rC=3", {"A": "1", "B": "2", "C": "3"}),
        ("\ufeffA=1", {"A": "1"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A\n=1\nno assignment\n  B=2", {"A": "1", "B": "2"}),
        ("A=\nB=1", {"A": "", "B": "1"}),
        ("A=''\nB=\"\"", {"A": "", "B": ""}),
        ("A='", {"A": "'"}),
    ],
)
def test_forms(text: str, values: dict[str, str]) -> None:
    assert parse_dotenv(text) == values


@pytest.mark.parametrize(
    ("value", "expanded"),
    [
        ("$HOST", "h"),
        ("${HOST}:${PORT}", "h:80"),
        ("a$HOST-b", "ah-b"),
        ("\\$HOST", "$HOST"),
        ("$", "$"),
        ("$5", "$5"),
        ("${", "${"),
        ("$NONE.", "."),
        ("${NONE:-x}", "x"),
        ("${NONE-x}", "x"),
        ("${NONE:-${HOST}}", "h"),
        ("${NONE:-${OTHER:-y}}z", "yz"),
        ("${HOST:-x}", "h"),
        ("${HOST:+x}", "x"),
        ("${NONE:+x}", ""),
        ("${EMPTY:-x}", "x"),
        ("$LATER", ""),
        ("$SELF", ""),
        ("$RAW", "$HOST"),
    ],
)
def test_references(value: str, expanded: str) -> None:
    values = {"HOST": "h", "EMPTY": "", "RAW": "\\$HOST", "SELF": value, "LATER": "1"}
    assert expand(values, {"PORT": "80"})["SELF"] == expanded


def test_the_environment_wins_and_is_taken_as_it_is() -> None:
    assert expand({"A": "a", "B": "$A"}, {"A": "$X", "X": "x"}) == {"A": "$X", "B": "$X"}
