"""The page of features is what its script makes of the tests, and a row cannot name what is not there."""

import json
from pathlib import Path

import pytest

from tests import compatibility
from tests.compatibility_rows import Row, Section
from tests.contract.do import replay_case


def test_the_page_is_what_the_script_makes() -> None:
    assert compatibility.PAGE.read_text(encoding="utf-8") == compatibility.page(), "run python -m tests.compatibility"


def test_every_recorded_case_that_is_named_passes() -> None:
    """A case that is only excused elsewhere is no evidence, unless the row says what differs."""
    for row in compatibility.rows():
        if row.works != "yes":
            continue
        for test in row.tests:
            kind, _, name = test.partition(":")
            if kind != "case":
                continue
            area, _, wanted = name.partition("/")
            path = compatibility.OBSERVATIONS / f"{area}.json"
            case = next(case for case in json.loads(path.read_text())["cases"] if case["name"] == wanted)
            assert replay_case(case)[0] == "passed", name


def test_every_recorded_websocket_case_is_named() -> None:
    named = {test.partition("/")[2] for row in compatibility.rows() for test in row.tests if test.startswith("case:")}
    assert compatibility.observations("websockets") <= named


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("suite:objects/check_nothing", "there is no check objects/check_nothing"),
        ("case:websockets/ws-nothing", "there is no recorded case"),
        ("tests/host/test_vendored.py::test_nothing", "there is no test"),
        ("tests/host/test_nothing.py::test_nothing", "there is no test"),
    ],
)
def test_a_row_whose_test_is_not_there_is_refused(test: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "SECTIONS", (Section("One", (Row("a feature", (test,)),)),))
    with pytest.raises(compatibility.Broken, match=says):
        compatibility.page()


def test_a_skipped_test_and_a_forgotten_check_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_it.py").write_text("@pytest.mark.skip\ndef test_it(): ...\n")
    monkeypatch.setattr(compatibility, "ROOT", tmp_path)
    monkeypatch.setattr(compatibility, "SECTIONS", (Section("One", (Row("a feature", ("test_it.py::test_it",)),)),))
    wrong = compatibility.problems()
    assert wrong[0] == "a feature: test_it.py::test_it is not run"
    assert "no row names suite:objects/check_abort" in wrong


@pytest.mark.acceptance
def test_every_test_that_is_named_passes() -> None:
    assert compatibility.main(["--run"]) == 0
