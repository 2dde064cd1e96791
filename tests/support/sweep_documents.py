"""Documents of sweep states for property tests, and what other YAML readers cannot be asked to agree on."""

import itertools
import json
import math
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Bare keys that a YAML reader gives another type; the schema wants them bare (`upsert-keys-quoting`).
TYPED_KEYS_1_2 = {"null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"}
TYPED_KEYS_1_1 = TYPED_KEYS_1_2 | {"yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"}

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""


def texts(max_size: int = 40) -> st.SearchStrategy[str]:
    """Texts of any characters, lone surrogates included, with a leaning to what YAML and JSON treat in a special way.

    A high surrogate before a low one is left out: as escapes they are one character (see `emit`).
    """
    special = st.sampled_from(
        list("\"\\:#-?[]{}|>&*!%@`',\n\r\t\x00\x1b\x7f\x85\x9f\u2028\u2029\ufeff\ufffe\ud800é🎉")
    )
    character = st.one_of(st.characters(), special, st.characters(categories=["Cs"], max_codepoint=0xDBFF))
    return st.lists(character, max_size=max_size).map("".join).filter(_joins_nothing)


def _joins_nothing(text: str) -> bool:
    pairs = itertools.pairwise(text)
    return not any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in pairs)


def floats(nonfinite: bool) -> st.SearchStrategy[float]:
    """Floats; NaN is left out, since it equals nothing."""
    return st.floats(allow_nan=False, allow_infinity=nonfinite)


def values(nonfinite: bool = True) -> st.SearchStrategy[Any]:
    """JSON values."""
    scalars = st.one_of(st.none(), st.booleans(), st.integers(), floats(nonfinite), texts())
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(texts(12), inner, max_size=4), st.just({}), st.just([])
        ),
        max_leaves=12,
    )


def documents(nonfinite: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Documents with the known keys, of their usual type or not, and others."""
    fields = st.one_of(st.sampled_from(["source", "status", "title", "body", "id", "cursor", "sensitive"]), texts(12))
    records = st.dictionaries(texts(20), st.dictionaries(fields, values(nonfinite), max_size=5), max_size=5)
    return st.builds(
        lambda known, more: {**more, "schema_version": 1, **known},
        st.fixed_dictionaries(
            {"sources": records, "items": records},
            optional={"lease": values(nonfinite), "last_run": values(nonfinite)},
        ),
        st.dictionaries(texts(12), values(nonfinite), max_size=3),
    )


def spelled(value: Any) -> str:
    """A text that two values share when they are the same, types included: 1, 1.0 and true all differ."""
    return json.dumps(value, sort_keys=True)


def keys_of(value: Any) -> set[str]:
    """Every key in a value."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def floats_of(value: Any) -> list[float]:
    """Every float in a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [found for entry in value for found in floats_of(entry)]
    return [value] if isinstance(value, float) else []


def is_text_in_yaml_1_1(value: float) -> bool:
    """Whether YAML 1.1 takes our spelling for a text: an exponent without a fraction, or no finite number."""
    return not math.isfinite(value) or ("e" in repr(value) and "." not in repr(value))
