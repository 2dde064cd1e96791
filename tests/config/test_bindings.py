"""Every kind of binding by its table: a minimal entry passes, and each required field is missed."""

from typing import Any

import pytest

from moorage.wrangler_compat.config import validate
from moorage.wrangler_compat.config.bindings import KINDS, Kind, names_of

VALUES = {"text": "abc", "number": 10, "boolean": True, "object": {"limit": 1, "period": 10}}
ALTERNATIVES = {"pipelines": {"stream": "s"}, "vpc_networks": {"tunnel_id": "t"}}
CHECKED = [kind for kind in KINDS if kind.form != "names" and kind.key != "assets"]


def section(kind: Kind, entry: dict[str, Any]) -> dict[str, Any]:
    if kind.key == "queues":
        return {"queues": {"producers": [entry]}}
    return {kind.key: {"list": [entry], "one": entry, "bindings": {"bindings": [entry]}}[kind.form]}


def minimal(kind: Kind) -> dict[str, Any]:
    return {f.name: VALUES[f.type] for f in kind.fields if f.need == "must"} | ALTERNATIVES.get(kind.key, {})


@pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.key)
def test_a_minimal_entry_is_accepted_and_named(kind: Kind) -> None:
    checked = validate(section(kind, minimal(kind)), heading="file")
    assert checked.report.all_errors == []
    assert names_of(checked.document, kind) == ["abc"]


@pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.key)
def test_every_required_field_that_is_missing_is_an_error(kind: Kind) -> None:
    for field in kind.fields:
        if field.need == "must":
            entry = {name: value for name, value in minimal(kind).items() if name != field.name}
            errors = validate(section(kind, entry), heading="file").report.all_errors
            assert [(error.code, (error.path or "").rpartition(".")[2]) for error in errors] == [
                ("required", field.name)
            ]


@pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.key)
def test_every_optional_field_of_another_type_is_an_error(kind: Kind) -> None:
    for field in kind.fields:
        if field.need == "may":
            entry = {**minimal(kind), field.name: 7 if field.type != "number" else "seven"}
            errors = validate(section(kind, entry), heading="file").report.all_errors
            assert ("wrong-type", field.name) in [(e.code, (e.path or "").rpartition(".")[2]) for e in errors]
