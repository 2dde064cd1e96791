"""`moorage check`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moorage.wrangler_compat.config import load
from moorage.wrangler_compat.host.check import command
from moorage.wrangler_compat.host.migrate import apply

GOOD = {"name": "w", "main": "entry.py", "compatibility_flags": ["python_workers"]}


def check(folder: Path, raw: dict[str, Any] | None, *options: str) -> Result:
    (folder / "entry.py").touch()
    if raw is not None:
        (folder / "wrangler.json").write_text(json.dumps(raw))
    return CliRunner().invoke(command, [str(folder), *options], env={"CLOUDFLARE_ENV": ""})


def test_a_good_configuration(tmp_path: Path) -> None:
    raw = {**GOOD, "migrations": [{"tag": "v1", "new_sqlite_classes": ["A"]}]}
    result = check(tmp_path, raw)
    assert result.exit_code == 0
    assert "no errors" in result.output
    assert "class A: sqlite" in result.output


def test_every_error_at_once_and_a_status(tmp_path: Path) -> None:
    raw = {"name": "W", "main": "none.py", "r2_buckets": [{"bucket_name": "x"}], "colour": 1}
    result = check(tmp_path, raw)
    assert result.exit_code == 1
    for text in (
        '"name"',
        "r2_buckets[0].binding",
        "r2_buckets[0].bucket_name",
        "python_workers",
        '"colour"',
        "Errors in",
    ):
        assert text in result.output


def test_json(tmp_path: Path) -> None:
    raw = {**GOOD, "env": {"x": {"r2_buckets": [{"binding": 1}]}}}
    result = check(tmp_path, raw, "--env", "x", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["ok"]) == (1, False)
    assert [(e["code"], e["path"], e["in"][1]) for e in document["errors"]] == [
        ("required", "env.x.r2_buckets[0].binding", '"env.x" environment')
    ]
    document = json.loads(check(tmp_path, GOOD, "--json").stdout)
    assert (document["ok"], document["name"], document["errors"], document["migrations"]) == (True, "w", [], None)


def test_files_and_secrets_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHECK_TEST_KEY", raising=False)
    raw = {**GOOD, "main": "none.py", "assets": {"directory": "none"}, "secrets": {"required": ["CHECK_TEST_KEY"]},
           "ai": {"binding": "AI"}}  # fmt: skip
    document = json.loads(check(tmp_path, raw, "--json").stdout)
    assert [error["path"] for error in document["errors"]] == ["main", "assets.directory"]
    assert [warning["path"] for warning in document["warnings"]] == ["secrets.required:CHECK_TEST_KEY", "ai:AI"]


def test_what_migrations_would_do(tmp_path: Path) -> None:
    state = tmp_path / "state"
    v1 = {"tag": "v1", "new_sqlite_classes": ["A"]}
    check(tmp_path, {**GOOD, "migrations": [v1]})
    apply(state, load(tmp_path, environ={}).require())
    (state / "do" / "w-A").mkdir()
    renamed = {**GOOD, "migrations": [v1, {"tag": "v2", "renamed_classes": [{"from": "A", "to": "B"}]}]}
    result = check(tmp_path, renamed, "--state", str(state))
    assert result.exit_code == 0
    assert "move the stored objects w-A to w-B" in result.output
    document = json.loads(check(tmp_path, renamed, "--state", str(state), "--json").stdout)
    assert document["migrations"] == [{"operation": "move", "source": "w-A", "target": "w-B"}]
    assert "nothing to do" in check(tmp_path, {**GOOD, "migrations": [v1]}, "--state", str(state)).output


def test_migrations_that_the_folder_refuses(tmp_path: Path) -> None:
    state = tmp_path / "state"
    check(tmp_path, {**GOOD, "migrations": [{"tag": "v1", "new_classes": ["A"]}]})
    apply(state, load(tmp_path, environ={}).require())
    result = check(tmp_path, {**GOOD, "migrations": [{"tag": "v2", "new_classes": ["A"]}]}, "--state", str(state))
    assert result.exit_code == 1
    assert '"v1" was applied' in result.output
    (state / "do" / "w.migrations.json").write_text("{")
    result = check(tmp_path, None, "--state", str(state))
    assert result.exit_code == 1
    assert "cannot be read" in result.output


def test_no_file_and_a_broken_file(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    result = CliRunner().invoke(command, [str(inner)])
    assert result.exit_code == 1
    assert "there is no wrangler.json" in result.output
    (inner / "wrangler.toml").write_text('name = "w')
    assert CliRunner().invoke(command, [str(inner)]).exit_code == 1
    assert CliRunner().invoke(command, [str(inner / "none")]).exit_code == 2
    result = CliRunner().invoke(command, [str(inner), "--config", str(inner / "none.toml")])
    assert result.exit_code == 1


def test_a_file_of_variables_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ".dev.vars").write_bytes(b"\xff")
    result = check(tmp_path, GOOD)
    assert result.exit_code == 1
    assert "UTF-8" in result.output


def test_what_a_start_would_refuse_or_pass_over(tmp_path: Path) -> None:
    raw = {
        **GOOD,
        "triggers": {"crons": ["* * * * *", "* * *", "61 * * * *"]},
        "queues": {"consumers": [{"queue": "a", "max_batch_size": 1000}, {"queue": "b", "dead_letter_queue": "b"}]},
        "build": {"command": "make"},
        "site": {"bucket": "public"},
        "ai": {"binding": "AI"},
    }
    document = json.loads(check(tmp_path, raw, "--json").stdout)
    assert [(e["code"], e["path"]) for e in document["errors"]] == [
        ("bad-cron", "triggers.crons[1]"),
        ("bad-cron", "triggers.crons[2]"),
        ("bad-consumer", "queues.consumers[0]"),
        ("bad-consumer", "queues.consumers[1]"),
    ]
    assert [(w["code"], w["path"]) for w in document["warnings"]] == [
        ("unsupported-binding", "ai:AI"),
        ("not-served", "build.command"),
        ("not-served", "site"),
    ]
