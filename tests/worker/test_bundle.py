"""The bundle: its configuration is sound, its entry exports what it binds, and it is shipped."""

import asyncio
import json
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from moorage.wrangler_compat.config import load

RECORDED = Path(__file__).parents[1] / "vectors" / "state-plane"
BUNDLE = Path(__file__).parents[2] / "worker" / "bundle"


def test_configuration_has_no_error() -> None:
    loaded = load(BUNDLE)
    assert loaded.report.all_errors == []
    document = tomllib.loads((BUNDLE / "wrangler.toml").read_text())
    bindings = {entry["name"]: entry["class_name"] for entry in document["durable_objects"]["bindings"]}
    assert bindings["EXACT_REVIEW_QUEUE"] == "ExactReviewQueue"
    assert bindings["GITHUB_ETAG_CACHE"] == "GithubEtagCache"
    declared = {name for step in document["migrations"] for name in step.get("new_sqlite_classes", [])}
    assert set(bindings.values()) <= declared, "a bound class without a migration has no SQL storage"
    assert document["r2_buckets"] == [{"binding": "STATE_SNAPSHOTS", "bucket_name": "clawsweeper-state-snapshots"}]
    assert document["secrets"]["required"] == ["CLAWSWEEPER_WEBHOOK_SECRET", "EXACT_REVIEW_OPERATOR_SECRET"]


def test_every_setting_of_the_code_is_declared() -> None:
    """`serve` takes declared names alone from the process's environment."""
    document = tomllib.loads((BUNDLE / "wrangler.toml").read_text())
    declared = {*document["vars"], *document["secrets"]["required"]}
    recorded = set()
    for path in sorted(RECORDED.glob("*.json")):
        for sequence in json.loads(path.read_text())["sequences"]:
            recorded |= set((sequence.get("config") or {}).get("env") or {})
    assert recorded
    assert recorded <= declared


def test_entry_exports_the_bound_classes() -> None:
    from moorage.worker.bundle import entry

    document = tomllib.loads((BUNDLE / "wrangler.toml").read_text())
    names = {binding["class_name"] for binding in document["durable_objects"]["bindings"]}
    assert {*names, "Default"} <= set(entry.__all__)
    for name in entry.__all__:
        assert callable(getattr(entry, name))


APPLIED = [
    {"tag": "v1", "new_sqlite_classes": ["ExactReviewQueue", "GithubEtagCache", "JobQueue", "SweepState"]},
    {"tag": "v2", "new_sqlite_classes": ["SessionCommits"]},
    {"tag": "v3", "new_sqlite_classes": ["LedgerIndex"]},
]
"""Migrations that somebody may have applied: they stay as they are, and what is new comes after them."""


def test_migrations_are_only_added_to() -> None:
    document = tomllib.loads((BUNDLE / "wrangler.toml").read_text())
    assert document["migrations"][: len(APPLIED)] == APPLIED
    tags = [step["tag"] for step in document["migrations"]]
    assert tags == [f"v{number}" for number in range(1, len(tags) + 1)]


def test_every_exported_class_is_bound_once_and_created_by_one_migration() -> None:
    from moorage.durable_objects.runtime import DurableObject
    from moorage.worker import entry as inner
    from moorage.worker.bundle import entry

    exported = {
        name
        for name in {*inner.__all__, *entry.__all__}
        if isinstance(getattr(inner, name), type) and issubclass(getattr(inner, name), DurableObject)
    }
    assert {name for name in exported if not hasattr(entry, name)} == set()
    document = tomllib.loads((BUNDLE / "wrangler.toml").read_text())
    bound = [binding["class_name"] for binding in document["durable_objects"]["bindings"]]
    created = [name for step in document["migrations"] for name in step["new_sqlite_classes"]]
    assert sorted(bound) == sorted(created) == sorted(exported)


def test_entry_stays_small() -> None:
    lines = [line for line in (BUNDLE / "entry.py").read_text().splitlines() if line and not line.startswith('"""')]
    assert len(lines) <= 24


def test_settings_are_read_before_the_first_request(caplog: pytest.LogCaptureFixture) -> None:
    from types import SimpleNamespace

    from moorage.worker.bundle.entry import moorage_started

    moorage_started(SimpleNamespace(CLAWSWEEPER_WEBHOOK_SECRET="s", EXACT_REVIEW_OPERATOR_SECRET=""))
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "signature version 1 is accepted" in said
    assert "EXACT_REVIEW_OPERATOR_SECRET is not set" in said


def test_files_are_package_data() -> None:
    folder = resources.files("moorage.worker.bundle")
    assert {"wrangler.toml", "entry.py"} <= {file.name for file in folder.iterdir()}


async def test_the_default_entrypoint_answers_a_request() -> None:
    from types import SimpleNamespace

    from moorage.durable_objects.runtime.web import Request
    from moorage.worker.entry import Default

    env = SimpleNamespace(CLAWSWEEPER_DEPLOY_SHA="f" * 40)
    response = await asyncio.wait_for(Default(None, env).fetch(Request("http://127.0.0.1/api/health")), 10)
    assert response.status == 200
    assert (await response.json())["deployment_sha"] == "f" * 40
