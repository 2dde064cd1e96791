"""Every key of a wrangler configuration: how environments see it, how it is checked, and its default.

The order is the one in which the platform reports on them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import deployment, sections
from .bindings import binding_check
from .checks import Check, nothing, of_type, text_list
from .lifecycle import check_exports, check_migrations


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the top level and of environments.

    inherited: an environment without it has the top level's value, whole; else it has the default, with a warning if
    the top level has the key. `default` makes the value where nothing is given, None where there is none.
    """

    name: str
    inherited: bool
    check: Check
    default: Callable[[], object] | None = None


def _inherited(name: str, check: Check, default: Callable[[], object] | None = None) -> Key:
    return Key(name, True, check, default)


def _own(name: str, check: Check | None = None, default: Callable[[], object] | None = None) -> Key:
    return Key(name, False, check or binding_check(name), default)


def _list(*names: str) -> tuple[Key, ...]:
    return tuple(_own(name, default=list) for name in names)


_TEXT, _BOOLEAN = of_type("text"), of_type("boolean")

KEYS: tuple[Key, ...] = (
    _inherited("route", deployment.check_route),
    _inherited("account_id", _TEXT),
    _inherited("routes", deployment.check_routes),
    _inherited("workers_dev", _BOOLEAN),
    _inherited("preview_urls", _BOOLEAN),
    _inherited("build", deployment.check_build, lambda: {"watch_dir": "./src"}),
    _inherited("compatibility_date", sections.check_date),
    _inherited("compatibility_flags", text_list, list),
    _inherited("jsx_factory", _TEXT, lambda: "React.createElement"),
    _inherited("jsx_fragment", _TEXT, lambda: "React.Fragment"),
    _inherited("tsconfig", _TEXT),
    _inherited("rules", deployment.check_rules, list),
    _inherited("name", sections.check_name),
    _inherited("main", _TEXT),
    _inherited("find_additional_modules", _BOOLEAN),
    _inherited("preserve_file_names", _BOOLEAN),
    _inherited("base_dir", _TEXT),
    _inherited("triggers", sections.check_triggers, dict),
    _inherited("assets", sections.check_assets),
    _inherited("limits", deployment.check_limits),
    _inherited("placement", deployment.check_placement),
    _own("vars", sections.check_vars, dict),
    _own("secrets", sections.check_secrets),
    _own("define", sections.check_define, dict),
    _own("durable_objects", default=lambda: {"bindings": []}),
    *_list("workflows"),
    _inherited("migrations", check_migrations, list),
    _inherited("exports", check_exports, dict),
    *_list("kv_namespaces"),
    _own("cloudchamber", sections.check_object, dict),
    _own("containers", deployment.check_containers),
    *_list("send_email"),
    _own("queues", sections.check_queues, lambda: {"producers": [], "consumers": []}),
    _own("connect", of_type("list"), list),
    *_list("r2_buckets", "d1_databases", "vectorize", "ai_search_namespaces", "ai_search"),
    _own("websearch"),
    *_list("agent_memory", "hyperdrive", "services", "analytics_engine_datasets", "dispatch_namespaces",
           "mtls_certificates"),
    _own("tail_consumers", deployment.check_tail_consumers),
    _own("streaming_tail_consumers", deployment.check_tail_consumers),
    _own("unsafe", sections.check_unsafe, dict),
    _own("browser"),
    _own("ai"),
    _own("images"),
    _own("stream"),
    _own("media"),
    *_list("pipelines", "secrets_store_secrets", "artifacts", "unsafe_hello_world", "flagship", "worker_loaders",
           "ratelimits", "vpc_services", "vpc_networks"),
    _own("version_metadata"),
    _inherited("logfwdr", binding_check("logfwdr"), lambda: {"bindings": []}),
    _inherited("no_bundle", _BOOLEAN),
    _inherited("minify", _BOOLEAN),
    _inherited("keep_names", _BOOLEAN),
    _inherited("first_party_worker", _BOOLEAN),
    _inherited("logpush", _BOOLEAN),
    _inherited("upload_source_maps", _BOOLEAN),
    _inherited("observability", deployment.check_observability),
    _inherited("access", sections.fields_check({"dev": "object"})),
    _inherited("cache", sections.fields_check({"enabled": "boolean", "cross_version_cache": "boolean"},
                                              must=frozenset({"enabled"}))),
    _inherited("compliance_region", of_type("text", "public", "fedramp_high")),
    _inherited("python_modules", deployment.check_python_modules, lambda: {"exclude": ["**/*.pyc"]}),
    _inherited("previews", sections.check_object),
)  # fmt: skip

TOP_LEVEL: Mapping[str, Check] = {
    "send_metrics": _BOOLEAN,
    "dependencies_instrumentation": sections.check_object,
    "keep_vars": _BOOLEAN,
    "addresses": text_list,
    "pages_build_output_dir": _TEXT,
    "$schema": _TEXT,
    "dev": sections.check_dev,
    "site": deployment.check_site,
    "alias": sections.names_to_texts,
    "wasm_modules": sections.names_to_texts,
    "text_blobs": sections.names_to_texts,
    "data_blobs": sections.names_to_texts,
    "env": nothing,
}
"""Keys that only the top level may have."""

REMOVED: Mapping[str, str] = {
    "legacy_env": "service environments are gone, each environment is a Worker of its own: delete the key",
    "node_compat": 'it has given way to the compatibility flag "nodejs_compat": delete the key',
}
"""Keys that were taken away: an error with what to do."""
