"""Rules of validation that no recorded case shows, and that any input at all gives a report."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.wrangler_compat.config import Report, WorkerConfig, validate
from moorage.wrangler_compat.config.bindings import KINDS
from moorage.wrangler_compat.config.build import build
from moorage.wrangler_compat.config.keys import KEYS, TOP_LEVEL

BASE = {"name": "w", "main": "src/entry.py", "compatibility_flags": ["python_workers"]}

WORDS = st.sampled_from(
    sorted({
        "binding", "bindings",
        "name", "class_name", "tag", "from", "to", "type", "state", "storage", "required", "crons",
        "producers", "consumers", "queue", "pattern", "enabled", "logs", "durable-object", "renamed", "x", "",
        *(field.name for kind in KINDS for field in kind.fields),
    })
)  # fmt: skip
PLAIN = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | WORDS | st.dates()
ANY = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4))
SECTIONS = st.dictionaries(st.sampled_from([key.name for key in KEYS] + sorted(TOP_LEVEL) + ["legacy_env"]), ANY)


@given(ANY | SECTIONS, st.none() | st.sampled_from(["a", "b"]), st.none() | SECTIONS | ANY)
def test_any_input_gives_a_report(top: Any, environment: str | None, section: Any) -> None:
    raw = {**top, "env": {"a": section}} if isinstance(top, dict) else top
    checked = validate(raw, heading="file", environment=environment)
    assert checked.report.render("errors") or not checked.report.all_errors
    assert checked.report.render("warnings") or not checked.report.all_warnings
    if not checked.report.all_errors:
        built = build(checked.document, checked.report, path=None, folder=Path("/"), environment=environment)
        assert isinstance(built, WorkerConfig) or checked.report.all_errors


@given(SECTIONS)
def test_the_input_is_not_changed(top: dict[str, Any]) -> None:
    before = repr(top)
    validate(top, heading="file", environment="a")
    assert repr(top) == before


def found(raw: dict[str, Any], environment: str | None = None) -> tuple[list[Any], list[Any]]:
    report = validate({**BASE, **raw}, heading="file", environment=environment).report
    return [(d.code, d.path) for d in report.all_errors], [(d.code, d.path) for d in report.all_warnings]


@pytest.mark.parametrize(
    ("raw", "errors", "warnings"),
    [
        ({"env": []}, [], []),
        ({"node_compat": True}, [("removed-field", "node_compat")], []),
        ({"route": ""}, [], [("empty-ignored", "route")]),
        ({"compatibility_date": "2026-13-01"}, [("bad-date", "compatibility_date")], []),
        ({"compatibility_date": "2026—99"},
         [("bad-date-dash", "compatibility_date"), ("bad-date", "compatibility_date")],
         []),
        ({"assets": {"directory": 1, "html_handling": "x", "run_worker_first": "y", "z": 1}},
         [("wrong-type", "assets.directory"), ("not-one-of", "assets.html_handling"),
          ("wrong-type", "assets.run_worker_first")], [("unexpected-field", "assets:z")]),
        ({"assets": {"run_worker_first": ["/api/*", 1]}}, [("wrong-type", "assets.run_worker_first[1]")], []),
        ({"queues": {"producers": [{"binding": "Q"}], "consumers": [{"max_retries": "1"}]}},
         [("required", "queues.consumers[0].queue"), ("wrong-type", "queues.consumers[0].max_retries"),
          ("required", "queues.producers[0].queue")], []),
        ({"services": [{"binding": "S"}]}, [("required", "services[0].service")], []),
        ({"r2_buckets": [{"binding": "B",
                          "local_dev": {"experimental_s3_credentials": {"accessKeyId": "k"}, "x": 1}}]},
         [("wrong-shape", "r2_buckets[0].local_dev.experimental_s3_credentials")],
         [("experimental", "local_dev.experimental_s3_credentials"),
          ("unexpected-field", "r2_buckets[0].local_dev:x")]),
        ({"r2_buckets": [{"bucket_name": "A"}, 1]},
         [("required", "r2_buckets[0].binding"), ("bad-bucket-name", "r2_buckets[0].bucket_name"),
          ("wrong-type", "r2_buckets[1]")], []),
        ({"exports": {"A": {"type": "durable-object", "state": "deleted", "storage": "sqlite"}}},
         [("forbidden-field", "exports.A.storage")], []),
        ({"exports": {"A": {"type": "durable-object", "state": "expecting-transfer", "storage": "sqlite"}}},
         [("required", "exports.A.transfer_from")], []),
        ({"exports": {"A": {"type": "durable-object", "state": "gone"}, "B": {"type": "worker"}, "C": {}, "D": 1}},
         [("not-one-of", "exports.A.state"), ("required", "exports.C.type"), ("wrong-type", "exports.D")], []),
        ({"migrations": [{"tag": "v1", "new_classes": ["A", 1], "renamed_classes": 5}, 7]},
         [("wrong-type", "migrations[0].new_classes[1]"), ("wrong-shape", "migrations[0].renamed_classes"),
          ("wrong-type", "migrations[1]")], []),
        ({"observability": {"logs": {"enabled": True, "head_sampling_rate": -1}}},
         [], []),
        ({"observability": {"enabled": True, "head_sampling_rate": 1.5, "logs": {"head_sampling_rate": "1"}}},
         [("out-of-range", "observability.head_sampling_rate"),
          ("wrong-type", "observability.logs.head_sampling_rate")], []),
        ({"dev": {"port": "1", "local_protocol": "ftp"}},
         [("wrong-type", "dev.port"), ("not-one-of", "dev.local_protocol"), ("not-one-of", "dev.upstream_protocol")],
         []),
        ({"routes": "x", "route": "example.com/*"},
         [("wrong-type", "routes"), ("mutually-exclusive", "route,routes")], []),
        ({"queues": {"producers": [{"binding": "Q", "queue": "q", "delivery_delay": 5}]}},
         [], [("deprecated", "queues.producers[0].delivery_delay")]),
        ({"dispatch_namespaces": [{"binding": "D"}], "flagship": [{"binding": "F"}]},
         [("required", "dispatch_namespaces[0].namespace"), ("required", "flagship[0].app_id")], []),
        ({"ratelimits": [{"name": "R", "namespace_id": "1", "simple": None}]},
         [("required", "ratelimits[0].simple")], []),
        ({"rules": [{"type": "PythonModule"}]},
         [("not-one-of", "rules[0].type"), ("wrong-type", "rules[0].globs")], []),
        ({"python_modules": {"exclude": [1]}}, [("wrong-type", "python_modules.exclude")], []),
        ({"site": {"bucket": "b"}}, [], []),
        ({"site": {"bucket": "b", "entry-point": "e"}},
         [("mutually-exclusive", "main,site.entry-point")], [("deprecated", "site.entry-point")]),
        ({"site": {"bucket": "b"}, "main": None}, [("wrong-type", "main")], [("deprecated", "site")]),
        ({"placement": {"mode": "smart"}}, [], []),
        ({"placement": {"mode": "smart", "hint": "wnam"}}, [], []),
        ({"placement": {"region": "aws:us-east-1"}}, [], []),
        ({"placement": {}}, [("required", "placement.mode")], []),
        ({"placement": {"mode": "near"}}, [("not-one-of", "placement.mode")], []),
        ({"placement": {"mode": "off", "hint": "wnam"}}, [("required-with", "placement.hint")], []),
        ({"placement": {"mode": "smart", "hint": "wnam", "host": "h:1"}},
         [("mutually-exclusive", "placement.hint,placement.host")], []),
        ({"placement": {"mode": "smart", "host": "h:1", "hostname": 1}},
         [("not-one-of", "placement.mode"), ("wrong-type", "placement.hostname"),
          ("mutually-exclusive", "placement.host,placement.hostname")], []),
        ({"vars": {"A": 1, "B": 2}, "secrets": {"required": ["A"]},
          "kv_namespaces": [{"binding": "B"}, {"binding": "B"}]},
         [("duplicate-binding", "B"), ("duplicate-binding", "B"), ("duplicate-binding", "A"),
          ("bindings-not-unique", None)], []),
    ],
)  # fmt: skip
def test_rules(raw: dict[str, Any], errors: list[Any], warnings: list[Any]) -> None:
    assert found(raw) == (errors, warnings)


def test_errors_of_an_environment_stand_below_its_heading() -> None:
    raw = {
        **BASE,
        "r2_buckets": [{"binding": 1}],
        "env": {"x": {"r2_buckets": [{"binding": 2}], "workers_dev": "yes"}},
    }
    report = validate(raw, heading="wrangler.json", environment="x").report
    assert report.render("errors").splitlines() == [
        "wrangler.json",
        '  - "r2_buckets[0].binding" must be a text, but is 1.',
        '  - "env.x" environment',
        '      - "workers_dev" must be true or false, but is "yes".',
        '      - "env.x.r2_buckets[0].binding" must be a text, but is 2.',
    ]


def test_keys_of_the_top_level_alone_are_unknown_in_an_environment() -> None:
    assert found({"env": {"x": {"dev": {}, "legacy_env": True}}}, "x") == (
        [],
        [("unexpected-field", "env.x:dev"), ("unexpected-field", "env.x:legacy_env")],
    )
    assert found({"env": {"x": {"node_compat": True}}}, "x") == ([("removed-field", "node_compat")], [])


@pytest.mark.parametrize(
    ("top", "inner", "warnings"),
    [
        ({"kv_namespaces": [{"binding": "A"}, {"binding": "B"}]}, {"kv_namespaces": []},
         [("env-lacks-binding", "kv_namespaces:A"), ("env-lacks-binding", "kv_namespaces:B")]),
        ({"queues": {"producers": [{"binding": "A", "queue": "q"}]}}, {"queues": {"producers": []}}, []),
        ({"ratelimits": [{"name": "A", "namespace_id": "1", "simple": {"limit": 1, "period": 10}}]},
         {"ratelimits": []}, []),
        ({"durable_objects": {"bindings": [{"name": n, "class_name": "C", "script_name": "o"} for n in "AB"]}},
         {"durable_objects": {"bindings": []}}, [("env-lacks-binding", "durable_objects:A, B")]),
        ({"durable_objects": {"bindings": [{"name": "A", "class_name": "C", "script_name": "o"}]}},
         {"durable_objects": {"bindings": [{"name": "B", "script_name": "o"}]}}, []),
        ({"vars": {"A": 1}}, {"vars": []}, [("env-lacks-vars", "vars")]),
        ({"define": {"A": "1"}}, {"define": {"B": "1"}},
         [("env-lacks-define", "define"), ("define-not-at-top", "env.x.define.B")]),
        ({"define": {}}, {"define": {"B": "1"}}, []),
        ({"routes": ["a/*", {"pattern": "b", "custom_domain": True}]}, {},
         [("inherits-custom-domain", "routes")]),
        ({"routes": [{"pattern": "b", "custom_domain": True}]}, {"routes": []}, []),
        ({"routes": ["a/*", {"pattern": "b", "custom_domain": False}]}, {}, []),
    ],
)  # fmt: skip
def test_what_an_environment_lacks(top: dict[str, Any], inner: dict[str, Any], warnings: list[Any]) -> None:
    assert found({**top, "env": {"x": inner}}, "x")[1] == warnings


@pytest.mark.parametrize(
    "text", ["2026-04-01", "2026-4-1", "2026", "2026/04/01", "2026-02-31", "2026-04-01T10:30:00Z", "04/01/2026",
             "4-1-2026", "April 1, 2026", "apr 01 2026"],
)  # fmt: skip
def test_dates(text: str) -> None:
    assert found({"compatibility_date": text}) == ([], [])


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-13-01", "2026-02-32", "2026-04-01T25:00:00Z", "2026-04-01T10:61:00Z", "13/04/2026",
             "20260401", "Aprilish", "April 32, 2026"],
)  # fmt: skip
def test_texts_that_are_no_dates(text: str) -> None:
    assert found({"compatibility_date": text}) == ([("bad-date", "compatibility_date")], [])


def test_unknown_keys_of_dev_are_not_in_the_finished_configuration() -> None:
    document = validate({**BASE, "dev": {"prot": 1}}, heading="file").document
    assert "prot" not in cast("dict[str, Any]", document["dev"])


def test_inherited_values_are_replaced_whole() -> None:
    raw = {**BASE, "triggers": {"crons": ["* * * * *"]}, "limits": {"cpu_ms": 1, "subrequests": 2},
           "env": {"x": {"limits": {"cpu_ms": 3}}}}  # fmt: skip
    document = validate(raw, heading="file", environment="x").document
    assert (document["limits"], document["triggers"]) == ({"cpu_ms": 3}, {"crons": ["* * * * *"]})


def test_a_bound_class_without_a_life_is_shown_how_to_get_one() -> None:
    raw = {**BASE, "durable_objects": {"bindings": [{"name": "C", "class_name": "Counter"}]}}
    message = validate(raw, heading="file", toml=True).report.all_warnings[0].message
    assert message.endswith('[exports.Counter]\ntype = "durable-object"\nstorage = "sqlite"')
    message = validate(raw, heading="file").report.all_warnings[0].message
    assert '"exports": {' in message


def test_the_typed_configuration() -> None:
    raw = {
        **BASE,
        "compatibility_date": "2026-04-01",
        "vars": {"A": "x", "N": 1},
        "secrets": {"required": ["KEY"]},
        "durable_objects": {
            "bindings": [
                {"name": "C", "class_name": "Counter"},
                {"name": "R", "class_name": "Room", "script_name": "other"},
                {"name": "U", "class_name": "Undeclared"},
            ]
        },
        "migrations": [
            {"tag": "v1", "new_classes": ["Old"], "new_sqlite_classes": ["Counter"]},
            {"tag": "v2", "renamed_classes": [{"from": "Old", "to": "New"}]},
        ],
        "r2_buckets": [
            {"binding": "B1", "bucket_name": "one-bucket", "preview_bucket_name": "two-bucket"},
            {"binding": "B2", "bucket_name": "one-bucket"},
            {
                "binding": "B3",
                "local_dev": {"experimental_s3_credentials": {"accessKeyId": "a", "secretAccessKey": "s"}},
            },
        ],
        "kv_namespaces": [{"binding": "KV", "id": "1"}],
        "queues": {
            "producers": [{"binding": "Q", "queue": "jobs"}],
            "consumers": [{"queue": "jobs", "max_retries": 3}],
        },
        "triggers": {"crons": ["*/5 * * * *"]},
        "assets": {"directory": "public", "run_worker_first": ["/api/*"]},
        "ai": {"binding": "AI"},
        "workflows": [{"binding": "WF", "name": "flow", "class_name": "Flow"}],
        "dev": {"port": 9000},
    }
    checked = validate(raw, heading="file")
    config = build(checked.document, checked.report, path=None, folder=Path("/project"), environment=None)
    assert checked.report.all_errors == []
    assert config is not None
    assert (config.main, config.import_root) == (Path("/project/src/entry.py"), Path("/project/src"))
    assert config.required_secrets == ("KEY",)
    assert [(b.name, b.unique_key) for b in config.durable_objects] == [
        ("C", "w-Counter"), ("R", "other-Room"), ("U", "w-Undeclared"),
    ]  # fmt: skip
    assert [(c.name, c.storage, c.declared) for c in config.classes] == [
        ("Counter", "sqlite", True), ("New", "legacy-kv", True), ("Undeclared", "legacy-kv", False),
    ]  # fmt: skip
    assert config.bound_classes == ("Counter", "Undeclared")
    assert [bucket.storage_name for bucket in config.r2_buckets] == ["two-bucket", "one-bucket", "B3"]
    assert "secretAccessKey" not in repr(config.r2_buckets)
    assert "'s'" not in repr(config.r2_buckets)
    assert config.queue_consumers[0].max_retries == 3
    assert config.crons == ("*/5 * * * *",)
    assert config.assets is not None
    assert (config.assets.directory, config.assets.run_worker_first) == (Path("/project/public"), ("/api/*",))
    assert [(u.kind, u.name) for u in config.unsupported] == [("ai", "AI"), ("workflows", "WF")]
    assert (config.dev.ip, config.dev.port) == ("localhost", 9000)
    with pytest.raises(TypeError):
        config.vars["A"] = "y"  # type: ignore[index]


def test_contradicting_migrations_are_an_error_of_the_load() -> None:
    raw = {**BASE, "migrations": [{"tag": "v1", "deleted_classes": ["A"]}]}
    checked = validate(raw, heading="file")
    assert checked.report.all_errors == []
    assert build(checked.document, checked.report, path=None, folder=Path("/"), environment=None) is None
    assert [(d.code, d.path) for d in checked.report.all_errors] == [
        ("unknown-class", "migrations[0].deleted_classes")
    ]


def test_a_report_without_messages_is_empty() -> None:
    report = Report("file")
    report.child("env")
    assert report.render("errors") == report.render("warnings") == ""
