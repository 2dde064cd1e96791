"""The table of settings, the class and the documentation say the same."""

from pathlib import Path

import pytest

from moorage.wrangler_compat.host.settings import SETTINGS, HostSettings, documented

DOCUMENT = Path(__file__).parents[2] / "docs" / "host.md"


def test_table_and_class_agree() -> None:
    assert documented() == set()
    settings = HostSettings()
    assert {row.name: row.default for row in SETTINGS} == {row.name: getattr(settings, row.name) for row in SETTINGS}


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_the_documentation_has_the_row(row: object) -> None:
    name, default, unit, text = (getattr(row, part) for part in ("name", "default", "unit", "help"))
    assert f"| `{name}` | `{default}` | {unit} | {text} |" in DOCUMENT.read_text()


def test_test_hooks_are_refused_beyond_loopback() -> None:
    with pytest.raises(ValueError, match="only on loopback"):
        HostSettings(test_hooks=True, host="0.0.0.0")
