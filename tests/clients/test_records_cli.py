"""`moorage records`: what a person and a program see."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Served, served_plane

SLUG = "acme-widgets"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with served_plane(monkeypatch) as made:
        yield made


def file(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def test_a_tuple_with_its_packet(served: Served, tmp_path: Path) -> None:
    report = file(tmp_path, "r.md", "---\nnumber: 7\n---\n\nbody\n")
    packet, plan = file(tmp_path, "p.json", "{}\n"), file(tmp_path, "plan.md", "# Plan\n")

    put = served.run("records", "put", "Acme/Widgets", "7", "--report", report, "--plan", plan, "--packet", packet)
    assert (put.exit_code, put.output) == (0, "acme-widgets/7 is at revision 1\n")
    got = served.run("records", "get", SLUG, "items", "7")
    assert f"decision_packet_sha256: {hashlib.sha256(b'{}' + bytes([10])).hexdigest()}" in got.output
    assert served.run("records", "get", SLUG, "plans", "7").output == "# Plan\n"
    described = json.loads(served.run("records", "get", SLUG, "decision-packets", "7", "--json").output)
    assert (described["content"], described["revision"]) == ("{}\n", 1)


def test_an_ambiguous_report_loses_its_packet(served: Served, tmp_path: Path) -> None:
    report = file(tmp_path, "r.md", "---\nnumber: 7\n---\n")
    packet = file(tmp_path, "p.json", "{}\n")
    arguments = ("records", "put", SLUG, "7", "--packet", packet, "--report")
    assert served.run(*arguments, report).exit_code == 0

    result = served.run(*arguments, file(tmp_path, "a.md", "---\nlabel: a\nlabel: b\n---\n"), "--json")

    assert result.exit_code == 0
    assert "WARNING: no decision packet" in result.output
    assert served.run("records", "get", SLUG, "decision-packets", "7").exit_code == 1


def test_deleting_and_expectations(served: Served, tmp_path: Path) -> None:
    report = file(tmp_path, "r.md", "x\n")
    served.run("records", "put", SLUG, "7", "--report", report)

    wrong = served.run("records", "put", SLUG, "7", "--report", report, "--expected-revision", "9")
    assert (wrong.exit_code, "at revision 1, not at 9" in wrong.output) == (1, True)
    assert served.run("records", "put", SLUG, "7").exit_code == 2
    assert served.run("records", "put", SLUG, "7", "--delete", "--closed").exit_code == 2
    assert served.run("records", "put", SLUG, "7", "--delete").output == "acme-widgets/7 is at revision 2\n"
    gone = served.run("records", "get", SLUG, "items", "7")
    assert (gone.exit_code, "deleted at revision 2" in gone.output) == (1, True)
    missing = served.run("records", "get", SLUG, "items", "8")
    assert (missing.exit_code, "record_not_found" in missing.output) == (1, True)


def test_the_same_delivery_twice(served: Served, tmp_path: Path) -> None:
    report = file(tmp_path, "r.md", "x\n")
    arguments = ("records", "put", SLUG, "7", "--report", report, "--delivery-id", "d-1", "--json")
    assert json.loads(served.run(*arguments).output)["replayed"] is False

    again = json.loads(served.run(*arguments).output)

    assert (again["replayed"], again["revision"]) == (True, 1)
    other = file(tmp_path, "other.md", "y\n")
    assert "delivery id is taken" in served.run(*arguments[:5], other, *arguments[6:]).output


def test_lists_journal_export_and_slugs(served: Served, tmp_path: Path) -> None:
    for number in ("7", "8"):
        served.run("records", "put", SLUG, number, "--report", file(tmp_path, f"{number}.md", f"{number}\n"))
    sha = "a" * 40
    committed = served.run("records", "commit", SLUG, file(tmp_path, f"{sha}.md", "commit\n"))
    assert committed.output == "1 new, 0 unchanged, store at 9\n"
    assert served.run("records", "commit", SLUG, file(tmp_path, "x.md", "commit\n")).exit_code == 2

    assert [entry["id"] for entry in lines(served.run("records", "list", SLUG, "items", "--json").output)] == [7, 8]
    assert len(served.run("records", "list", SLUG, "items").output.splitlines()) == 2
    journal = lines(served.run("records", "journal", SLUG, "--since", "4", "--json", "--contents").output)
    assert [entry["storeRevision"] for entry in journal] == [5, 6, 7, 8, 9]
    assert journal[-1]["content"] == "commit\n"
    assert "deleted" in served.run("records", "journal", SLUG, "--section", "plans").output
    assert json.loads(served.run("records", "slugs", "--json").output) == {SLUG: 9}
    assert served.run("records", "slugs").output.split() == ["9", SLUG]
    exported = served.run("records", "export", SLUG, str(tmp_path / "out"))
    assert exported.output == f"3 records below {tmp_path / 'out'}\n"
    assert (tmp_path / "out" / "records" / SLUG / "commits" / f"{sha}.md").read_text() == "commit\n"


def test_snapshots(served: Served) -> None:
    assert served.run("records", "snapshot", SLUG).exit_code == 1
    made = json.loads(served.run("records", "snapshot", SLUG, "--trigger", "--json").output)
    assert json.loads(served.run("records", "snapshot", SLUG, "--json").output) == made


def test_the_audit_names_every_lookalike(served: Served, tmp_path: Path) -> None:
    text = "---\nstate: open\n---\n\nstate: closed\n```\nstate: x\n```\n"
    report = file(tmp_path, "7.md", text)
    served.run("records", "put", SLUG, "7", "--report", report)

    for source in (SLUG, str(tmp_path)):
        result = served.run("records", "audit", source, "--json")
        found = [(entry["key"], entry["place"], entry["line"]) for entry in lines(result.output)]
        assert found == [("state", "body_line", 5), ("state", "fenced", 7)]
    assert len(lines(served.run("records", "audit", "acme/widgets", "--number", "7", "--json").output)) == 2
    failing = served.run("records", "audit", report, "--fail")
    assert failing.exit_code == 1
    assert f"{report}:5: state: body line: state: closed" in failing.output
    assert served.run("records", "audit", SLUG, "--number", "8", "--fail").exit_code == 0


def test_a_slug_that_is_none_is_refused(served: Served) -> None:
    for wrong in ("a b", "a/b/c", "-x"):
        result = served.run("records", "list", "--", wrong, "items")
        assert result.exit_code == 2


@pytest.mark.parametrize("module", ["records_cli", "hydrate.cli"])
def test_commands_import_nothing_heavy(module: str) -> None:
    heavy = {"httpx", "starlette", "sqlite3", "boto3", "tenacity", "asyncio", "msgspec", "subprocess"}
    program = f"import sys, moorage.clients.{module}; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("records", "get", SLUG, "items", "9" * 30), 2, "range"),
        (("records", "put", SLUG, "9" * 30, "--delete"), 2, "range"),
        (("hydrate", "out", "--repo", SLUG, "--item", "9" * 30), 2, "range"),
        (("records", "commit", SLUG, f"{'a' * 40}.md"), 1, "is not UTF-8 at byte 0"),
    ],
)
def test_what_no_record_can_be_is_one_error(
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{'a' * 40}.md").write_bytes(b"\xff")
    result = served.run(*arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr
