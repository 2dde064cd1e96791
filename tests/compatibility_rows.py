"""The rows of `docs/compatibility.md`: features in the API's own spelling, and the tests that show them."""

from dataclasses import dataclass
from typing import Literal

Works = Literal["yes", "partly", "no"]


@dataclass(frozen=True, slots=True)
class Row:
    """One feature. `tests` are references as `tests.compatibility` reads them; `note` says what differs."""

    feature: str
    tests: tuple[str, ...]
    works: Works = "yes"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its rows."""

    title: str
    rows: tuple[Row, ...]


def yes(feature: str, *tests: str, note: str = "") -> Row:
    """A feature that works."""
    return Row(feature, tests, "yes", note)


def partly(feature: str, *tests: str, note: str) -> Row:
    """A feature that works with a limit."""
    return Row(feature, tests, "partly", note)


def no(feature: str, *tests: str, note: str) -> Row:
    """A feature that does not work; the test shows that it says so."""
    return Row(feature, tests, "no", note)


DISCOVERY = "tests/workers/test_discovery.py::"
CALLING = "tests/workers/test_calling.py::"
FINDER = "tests/workers/test_finder.py::"
ASGI = "tests/workers/asgi/"
WSGI = "tests/workers/test_wsgi.py::"
JS = "tests/workers/js/"
RPC = "tests/workers/test_rpc.py::"
OUTGOING = "tests/workers/test_outgoing.py::"
SWITCHING = "tests/workers/test_switching.py::"
EXAMPLES = "tests/examples/test_programs.py::"
SERVING = "tests/host/test_serving.py::"
KV = "tests/host/test_kv.py::"
D1 = "tests/host/test_d1.py::"
QUEUES = "tests/host/test_queues.py::"
SERVICES = "tests/host/test_services.py::"
ASSETS = "tests/host/test_assets.py::"
TRIGGERS = "tests/host/test_triggers.py::"
R2 = "tests/r2/test_conformance.py::"
SOCKETS = "tests/host/test_websockets.py::"

ENTRY = Section(
    "Entry, discovery, calls of handlers",
    (
        yes("`main` names a file; its folder is the import root", EXAMPLES + "test_notes", EXAMPLES + "test_beside"),
        yes("files of the bundle beside `__file__`", "suite:web/check_files_of_the_bundle", EXAMPLES + "test_picture"),
        yes("flag `python_workers` is required", SERVING + "test_refusals_say_what_is_wrong"),
        yes("classes by `__all__` or by name, known by `__name__`", DISCOVERY + "test_all_names_the_exports",
            DISCOVERY + "test_classes_are_found_by_their_base_and_known_by_their_own_name"),
        yes("exported methods: public functions, inherited and mixed in", DISCOVERY + "test_methods_that_rpc_may_call",
            "suite:objects/check_method_call"),
        yes("`class Default(WorkerEntrypoint)`", EXAMPLES + "test_hello"),
        yes("other `WorkerEntrypoint` classes are named entrypoints", SERVICES + "test_over_a_real_server"),
        yes("`Default` beside module-level `on_*` is a TypeError",
            DISCOVERY + "test_legacy_handlers_beside_a_default_class_are_a_type_error"),
        yes("legacy `on_fetch`, `on_scheduled`, … by date and flag", DISCOVERY + "test_legacy_handlers",
            EXAMPLES + "test_legacy"),
        yes("legacy methods `on_fetch`, `on_alarm` of classes", DISCOVERY + "test_legacy_methods_of_a_class"),
        yes("surplus arguments are dropped: `fetch(self)`, `alarm(self)`, `on_fetch(request)`",
            CALLING + "test_surplus_arguments_are_dropped", EXAMPLES + "test_cron_by_hand"),
        yes("`scheduled(self, controller, env, ctx)`, `queue(self, batch, env, ctx)`",
            SERVING + "test_a_worker_is_reached_by_its_cron",
            note="fewer parameters are taken too; the platform refuses that"),
        yes("plain results and coroutines", CALLING + "test_plain_results_and_coroutines_are_both_awaited"),
        yes("`fetch` returns a Response of Python or of JavaScript", CALLING + "test_fetch_handlers_give_a_response"),
        yes("packages in `python_modules/` and `vendor/`; their `.pth` files by date",
            "tests/host/test_vendored.py::test_vendored_packages",
            "tests/host/test_vendored.py::test_path_files_are_obeyed_from_their_date_on"),
        yes("the old module `cloudflare.workers`", FINDER + "test_every_public_name_gives_our_module"),
    ),
)  # fmt: skip

WORKERS = Section(
    "`workers`",
    (
        yes("`Request(…)`: members, `repr`, `http.HTTPMethod`", "suite:web/check_request"),
        yes("`.text() .json(**kw) .bytes() .buffer() .blob() .form_data()` of requests",
            "suite:web/check_request_bodies"),
        yes("a body is read once; `.clone()`", "suite:web/check_a_body_is_read_once"),
        yes("`.headers` is an `http.client.HTTPMessage`; repeats joined, `Set-Cookie` apart", "suite:web/check_headers"),
        yes("`Response(…)`: members, `repr`", "suite:web/check_response"),
        yes("bodies: text, bytes, FormData, Blob, URLSearchParams, ReadableStream, js Response",
            "suite:web/check_response_bodies"),
        yes("other bodies: `TypeError(\"Unsupported type in Response: …\")`",
            "suite:web/check_other_bodies_are_refused"),
        yes("`Response.json`, `Response.from_json`", "suite:web/check_json_response"),
        yes("`Response.redirect`", "suite:web/check_redirect"),
        yes("`await fetch(…)`: options are keywords, failures `OSError`",
            "suite:web/check_fetch_takes_keywords_alone", OUTGOING + "test_a_request_and_its_answer",
            OUTGOING + "test_failures"),
        yes("`fetch`: `redirect=`, `signal=`, streams both ways", OUTGOING + "test_redirects",
            OUTGOING + "test_signals", OUTGOING + "test_a_request_object_and_a_stream"),
        yes("`Blob`, `File`", "suite:web/check_blobs_and_files"),
        yes("`FormData`", "suite:web/check_form_data"),
        yes("`from workers import env`, `patch_env`", "suite:web/check_env_of_the_module"),
        yes("`ctx.waitUntil`, `wait_until`", "suite:web/check_wait_until", "suite:objects/check_wait_until"),
        yes("`@handler`", DISCOVERY + "test_legacy_handlers_get_the_platform_s_request"),
        partly("`import_from_javascript`", "suite:web/check_import_from_javascript",
               note="`cloudflare:workers`; raw sockets raise NotImplementedError when used"),
        yes("`python_from_rpc`, `python_to_rpc`", "suite:web/check_conversions"),
        yes("types, `workers.workflows.NonRetryableError`", "suite:web/check_types"),
        yes("types of wrappers in `workers.rpc`", "suite:web/check_types_of_wrappers"),
        yes("`asgi.fetch`: FastAPI, Starlette", EXAMPLES + "test_pages", EXAMPLES + "test_tools",
            ASGI + "test_scope.py::test_the_scope"),
        yes("`scope[\"env\"]`, `from asgi import env`", EXAMPLES + "test_pages"),
        yes("lifespan", ASGI + "test_lifespan.py::test_lifespan_runs_once_and_its_state_is_copied",
            note="once a process, not for every request"),
        yes("`asgi.websocket`", ASGI + "test_sockets.py::test_a_socket_between_program_and_application",
            SOCKETS + "test_an_asgi_application_has_the_servers_own_channels"),
        yes("streams that fail midway cut the answer", ASGI + "test_failures.py::test_an_error_in_the_middle_cuts_the_answer"),
        yes("`wsgi.fetch`: Django", EXAMPLES + "test_notes", WSGI + "test_the_standard_validator_is_content"),
    ),
)  # fmt: skip

VALUES = Section(
    "Values across the boundary",
    (
        yes("text, numbers, bool, lists, dictionaries, None, copied", "suite:objects/check_values_are_copied",
            RPC + "test_plain_values_come_back_equal_and_as_copies", RPC + "test_null_is_none"),
        yes("sets", RPC + "test_sets"),
        yes("bytes come back as `memoryview` (`python_to_rpc`)", RPC + "test_bytes_come_back_as_memoryview"),
        yes("`datetime`: whole milliseconds, naive local", RPC + "test_datetimes_lose_microseconds_and_zone"),
        yes("exceptions come back as `Exception(\"Error: text\")` (`python_to_rpc`)",
            RPC + "test_exceptions_come_back_as_text"),
        yes("functions and methods are stubs", RPC + "test_functions_become_stubs",
            "suite:objects/check_functions_are_stubs"),
        yes("Request, Response, FormData, Blob, File", RPC + "test_web_values"),
        yes("tuples, bytearrays, awaitables, patterns: TypeError (`python_to_rpc`)",
            RPC + "test_what_may_not_cross_is_a_type_error"),
        yes("other objects: `DataCloneError`", RPC + "test_other_objects_are_a_data_clone_error",
            "suite:objects/check_a_value_that_cannot_be_cloned"),
        yes("dictionaries are read by attribute, `.to_py()`, `.length`", RPC + "test_dictionaries_are_read_by_attribute",
            "suite:objects/check_results_answer_to_both_generations"),
        yes("an exception of the other side reaches the caller", "suite:objects/check_an_exception_crosses",
            note="built-in classes stay themselves; the object's own lines are its cause"),
    ),
)  # fmt: skip

OBJECTS = Section(
    "Durable Objects: namespaces, stubs, state",
    (
        yes("`env.NAME` of variables, text or JSON", "suite:objects/check_variables"),
        yes("`idFromName`, `.toString()`, `.name`, `.equals()`, `str(id)`", "suite:objects/check_id_from_name"),
        yes("`idFromString`", "suite:objects/check_id_from_string"),
        yes("`newUniqueId`", "suite:objects/check_unique_id"),
        yes("`get`, `getByName`, `stub.id`, `stub.name`", "suite:objects/check_get_by_name"),
        no("`jurisdiction`", "suite:objects/check_jurisdiction", note="raises, as the local platform does"),
        yes("`len(env.NS)`: TypeError; `bool` is true", "suite:objects/check_namespace_is_no_container"),
        yes("`await stub.method(*args)`", "suite:objects/check_method_call", EXAMPLES + "test_methods_with_defaults",
            "suite:objects/check_call_in_parallel"),
        yes("a method that is missing or private", "suite:objects/check_a_missing_method"),
        yes("`await stub.fetch(url, method=, headers=, body=)`", "suite:objects/check_fetch"),
        yes("`stub.fetch(Request)`, `stub.fetch(url, {…})`", "suite:objects/check_fetch_with_a_request",
            "suite:objects/check_fetch_with_options"),
        yes("`async def fetch(self)` of an object", "suite:objects/check_fetch_without_parameters"),
        yes("objects call objects", "suite:objects/check_objects_call_objects"),
        yes("`ctx.id`", "suite:objects/check_state_id"),
        yes("`ctx.blockConcurrencyWhile`, also in `__init__`", "suite:objects/check_block_concurrency"),
        yes("memory lasts between calls", "suite:objects/check_memory_lasts_between_calls"),
        yes("`ctx.abort(reason)`: a `BaseException`, a fresh instance next", "suite:objects/check_abort",
            EXAMPLES + "test_ticker"),
    ),
)  # fmt: skip

STORAGE = Section(
    "Durable Objects: storage",
    (
        yes("`get`, `put`", "suite:storage/check_put_and_get", "suite:storage/check_values_are_copies"),
        yes("`get([keys])`, `put({…})`, `delete(key or [keys])`", "suite:storage/check_many_keys"),
        yes("`to_js(…)` in, `.to_py()` out", "suite:storage/check_to_js_and_to_py"),
        yes("`list({prefix, start, startAfter, end, limit, reverse})`", "suite:storage/check_list"),
        yes("`deleteAll`", "suite:storage/check_delete_all"),
        yes("`transaction(async fn(txn))`, `txn.rollback()`", "suite:storage/check_transaction"),
        yes("`transactionSync`", "suite:storage/check_transaction_sync"),
        yes("`sync`", "suite:storage/check_sync"),
        yes("`getAlarm`, `setAlarm(ms or datetime)`, `deleteAlarm`", "suite:storage/check_alarm_times",
            "suite:storage/check_an_alarm_without_a_handler"),
        yes("`alarm(self)`, `alarm(self, info)`; retries", "suite:storage/check_an_alarm_fires",
            "tests/runtime/test_alarms.py::test_retries_are_counted_and_given_up"),
        yes("`storage.kv.get/put/delete/list`", "suite:storage/check_synchronous_keys"),
        yes("`sql.exec`: `toArray()`, rows by key and attribute", "suite:sql/check_to_array"),
        yes("`one()`", "suite:sql/check_one"),
        yes("`for row in cursor`", "suite:sql/check_iteration"),
        yes("`raw()`, `raw().toArray().to_py()`", "suite:sql/check_raw", "suite:sql/check_raw_to_py"),
        partly("`columnNames`, `rowsRead`, `rowsWritten`", "suite:sql/check_columns_and_counts",
               note="rows that came out and rows that were changed: the standard module shows no scans"),
        yes("`sql.databaseSize`", "suite:sql/check_database_size"),
        yes("bindings", "suite:sql/check_bindings"),
        yes("several statements in one text", "suite:sql/check_several_statements"),
        yes("`RETURNING`", "suite:sql/check_returning"),
        yes("errors, refused statements", "suite:sql/check_errors"),
        yes("a cursor that is not read to its end locks its table", "suite:sql/check_a_cursor_locks_its_table"),
        yes("JSON functions, full-text search", "suite:sql/check_json_and_full_text"),
        yes("SQL and keys share a transaction", "suite:sql/check_rows_and_keys_share_a_transaction"),
        yes("wrong arguments", "suite:storage/check_wrong_arguments"),
        partly("`getCurrentBookmark`, `getBookmarkForTime`, `onNextSessionRestoreBookmark`",
               "suite:storage/check_bookmarks", "tests/runtime/test_bookmarks.py::test_there_and_back_again",
               note="moments for which a bookmark was taken, 32 an object"),
        yes("nothing leaves before it is durable", "tests/runtime/test_durability.py::test_an_answer_waits_for_the_sync"),
    ),
)  # fmt: skip

BUCKETS = Section(
    "R2",
    (
        yes("`put`, `get`", "suite:buckets/check_put_and_get", R2 + "test_put_get_head_delete"),
        yes("`text() json() arrayBuffer() blob()`, `bodyUsed`", "suite:buckets/check_bodies"),
        yes("values: text, bytes of any kind, `to_js(…)`, None", "suite:buckets/check_values",
            "suite:buckets/check_binary_survives", "suite:buckets/check_typed_arrays_are_stored"),
        yes("`.body`: a stream, `getReader()`", "suite:buckets/check_stream"),
        yes("results of the older SDK: `arrayBuffer().to_py()`, chunks, `slice()`",
            "suite:buckets/check_bytes_of_the_older_generation"),
        yes("a body is the body of an answer", "suite:buckets/check_an_object_is_an_answer"),
        yes("a stream is stored", "suite:buckets/check_a_stream_is_stored"),
        yes("missing objects are None", "suite:buckets/check_missing"),
        yes("`.key .size .etag .httpEtag .version .uploaded .checksums`", "suite:buckets/check_members"),
        yes("members by attribute, by key and by `.get()`", "suite:buckets/check_results_are_read_like_dictionaries"),
        yes("`httpMetadata`, `customMetadata`", "suite:buckets/check_metadata"),
        yes("`writeHttpMetadata(headers)`", "suite:buckets/check_write_http_metadata"),
        yes("options by dictionary, `to_js(…)`, keywords or None", "suite:buckets/check_options_of_both_generations"),
        yes("`range=`", "suite:buckets/check_ranges"),
        yes("`onlyIf=` by members or by headers", "suite:buckets/check_conditions",
            "suite:buckets/check_conditions_are_headers", R2 + "test_create_only_is_one_step"),
        yes("`md5= sha1= sha256= sha384= sha512=`", "suite:buckets/check_checksums"),
        yes("`delete(key or [keys])`", "suite:buckets/check_delete"),
        yes("`list(prefix, limit, cursor, startAfter, delimiter, include)`", "suite:buckets/check_list"),
        yes("`createMultipartUpload`, `resumeMultipartUpload`, `uploadPart`, `complete`",
            "suite:buckets/check_upload_in_parts"),
        yes("`abort` of an upload", "suite:buckets/check_abandoned_upload"),
        yes("wrong names and values", "suite:buckets/check_wrong_names"),
    ),
)  # fmt: skip

OTHERS = Section(
    "Other bindings and events",
    (
        yes("KV: `get` in every type, `put`, `delete`", KV + "test_every_type_of_a_value", KV + "test_what_can_be_put",
            KV + "test_missing_keys_and_overwriting"),
        yes("KV: `get([keys])`, `getWithMetadata`", KV + "test_many_keys"),
        yes("KV: `expirationTtl`, `metadata`", KV + "test_expiration_is_by_the_clock_handed_in"),
        yes("KV: `list(prefix, limit, cursor)`", KV + "test_pages"),
        yes("D1: `prepare().bind().all()/.first()/.run()/.raw()`", D1 + "test_rows_in_every_form", D1 + "test_meta"),
        yes("D1: `batch`, `exec`", D1 + "test_a_batch_is_all_or_nothing", D1 + "test_exec"),
        yes("queues: `send`, `sendBatch`, contents, delays", QUEUES + "test_contents", QUEUES + "test_delays"),
        yes("queues: consumers, `ack`, `retry`, dead letter queue",
            QUEUES + "test_what_a_handler_raises_hands_out_again_but_not_what_was_acknowledged",
            QUEUES + "test_retries_end_in_the_dead_letter_queue"),
        yes("service bindings: methods, `fetch`, named entrypoints", SERVICES + "test_values_come_back_as_copies",
            SERVICES + "test_over_a_real_server"),
        yes("static assets: `env.ASSETS.fetch`, single page applications",
            ASSETS + "test_the_binding", ASSETS + "test_a_single_page_application"),
        yes("cron triggers", SERVING + "test_crons_fire_at_their_times", EXAMPLES + "test_cron_by_the_clock"),
        yes("events by hand", TRIGGERS + "test_the_command"),
        yes("rate limits, version metadata", TRIGGERS + "test_rate_limits_and_the_version"),
        yes("bindings are no containers", KV + "test_a_binding_is_no_container",
            D1 + "test_bindings_are_no_containers"),
        no("workflows, AI, Vectorize, Hyperdrive, worker loader, browser, email",
           TRIGGERS + "test_kinds_that_cannot_be_served_are_named_at_the_start", note="named at the start"),
    ),
)  # fmt: skip

JAVASCRIPT = Section(
    "`js` and `pyodide`",
    (
        yes("`to_js`, `dict_converter=Object.fromEntries`", "suite:javascript/check_to_js", JS + "test_values.py::test_default_converter"),
        yes("`Object.fromEntries/entries/keys/new`", "suite:javascript/check_object"),
        yes("`Response.new`, `Response.json`, `Headers.new`", "suite:javascript/check_response_and_headers"),
        yes("`Request.new(url, request)`: a request as the init object", "tests/workers/web/test_platform_messages.py::test_a_request_is_an_init_object_of_another"),
        yes("`URL`, `URLSearchParams`", "suite:javascript/check_url"),
        yes("`JSON`", "suite:javascript/check_json"),
        yes("`Date`", "suite:javascript/check_date", JS + "test_dates.py::test_parts_that_are_set"),
        yes("`console`", "suite:javascript/check_console"),
        yes("`WebSocketPair`: unpacking and `object_values()`", "suite:javascript/check_socket_pair"),
        yes("`WebSocket`, `fetch` with an upgrade", "tests/workers/test_sockets.py::test_a_socket_of_a_url"),
        yes("`fetch(url, to_js({…}))`", OUTGOING + "test_the_platform_s_spelling"),
        partly("`Uint8Array`, `ArrayBuffer`, `DataView`, `TextEncoder`, `atob`", "suite:javascript/check_binary",
               note="a `Uint8Array` made of a buffer is a copy of it"),
        yes("`Map`, `Set`", "suite:javascript/check_map_and_set"),
        yes("`Error`, `JsException`", "suite:javascript/check_errors", "suite:javascript/check_error_as_a_class"),
        yes("`arrayBuffer()`, `to_bytes()`, `to_memoryview()`", "suite:javascript/check_bodies_as_bytes"),
        yes("what bridges of programs' own use: `getBuffer`, streams, pairs of headers",
            "suite:javascript/check_response_of_a_framework", "suite:javascript/check_a_bridge_of_a_programs_own"),
        yes("`setTimeout`, `undefined`, `jsnull`, `globalThis`, `JsProxy`", "suite:javascript/check_timers_and_globals"),
        yes("`crypto`, `crypto.subtle`", "suite:javascript/check_crypto",
            JS + "test_crypto.py::test_signatures_survive_export_and_import"),
        yes("`caches`: `default`, `open`, `match`, `put`, `delete`", JS + "test_caches.py::test_an_answer_is_kept_for_its_time"),
        yes("`Promise`", JS + "test_promises.py::test_then_catch_and_finally"),
        yes("`ReadableStream`, `TransformStream`", JS + "test_streams.py::test_streams_made_of_functions", JS + "test_streams.py::test_transform_streams"),
        yes("`WritableStream`, `pipeTo`, `pipeThrough`", JS + "test_streams.py::test_writable_streams", JS + "test_streams.py::test_options_of_pipes"),
        yes("`CompressionStream`, `DecompressionStream`", JS + "test_streams.py::test_compression"),
        yes("`run_sync`", "suite:javascript/check_run_sync",
            SWITCHING + "test_synchronous_code_waits_in_the_middle_of_a_coroutine"),
        yes("`pyodide.http`, `.code`, `.webloop`, `__version__`", "suite:javascript/check_modules_of_pyodide"),
        yes("pytest inside a handler", "tests/workers/test_nested_loops.py::test_pytest_runs_inside_a_handler"),
        yes("`HTMLRewriter`", "suite:javascript/check_html_rewriter", JS + "test_html_rewriter.py::test_changes_of_an_element"),
        no("`eval`, `WebAssembly`", "suite:javascript/check_what_is_not_offered",
           JS + "test_globals.py::test_what_is_not_offered_says_so", note="importable; use raises NotImplementedError"),
    ),
)  # fmt: skip

WEBSOCKETS = Section(
    "Hibernating WebSockets",
    (
        yes("`acceptWebSocket(ws, tags)`", "case:websockets/ws-duplicate-tags-collapse",
            "case:websockets/ws-eleven-tags", "case:websockets/ws-tag-256-and-257-long",
            "case:websockets/ws-accept-after-plain-accept"),
        yes("`getWebSockets(tag)`, `getTags`", "case:websockets/ws-list-and-tags",
            "case:websockets/ws-unknown-in-plain-mode-not-listed", "case:websockets/ws-server-broadcast"),
        yes("`webSocketMessage`: order, text and bytes, errors", "case:websockets/ws-messages-in-order",
            "case:websockets/ws-binary-message", "case:websockets/ws-server-sends-binary",
            "case:websockets/ws-throw-in-message-handler"),
        yes("`webSocketClose`: a client's close", "case:websockets/ws-client-close-reaches-handler",
            "case:websockets/ws-client-close-answered-by-handler",
            SOCKETS + "test_an_objects_answer_to_a_close_reaches_the_client"),
        yes("`ws.close(code, reason)`", "case:websockets/ws-server-close-from-request",
            "case:websockets/ws-server-close-then-client-answers", "case:websockets/ws-server-close-in-handler"),
        yes("attachments", "case:websockets/ws-attachment-round-trip", "case:websockets/ws-attachment-default-null",
            "case:websockets/ws-attachment-undefined",
            "case:websockets/ws-attachment-16384-limit"),
        partly("an attachment that cannot be cloned is refused", "case:websockets/ws-attachment-function-refused",
               note="the error's text names the Python value"),
        yes("`setWebSocketAutoResponse`", "case:websockets/ws-auto-response",
            "case:websockets/ws-auto-response-other-text-reaches-handler",
            "case:websockets/ws-auto-response-before-any-socket", "case:websockets/ws-auto-response-2048-limit"),
        yes("`setHibernatableWebSocketEventTimeout`", "case:websockets/ws-event-timeout"),
        yes("eviction with open sockets, wake on message or close",
            "case:websockets/ws-hibernation-keeps-socket-and-attachment",
            "case:websockets/ws-hibernation-auto-response-does-not-wake",
            "case:websockets/ws-hibernation-client-close-wakes", SOCKETS + "test_echo_through_a_sleeping_object"),
        yes("back-pressure", SOCKETS + "test_a_client_that_does_not_read_is_cut_off",
            SOCKETS + "test_a_busy_object_holds_its_client_back"),
        yes("plain sockets of Workers and objects", SOCKETS + "test_plain_sockets_of_object_and_worker"),
        yes("a chat room", "tests/examples/test_chatroom.py::test_a_conversation_over_a_room_that_falls_asleep"),
    ),
)  # fmt: skip

TESTING = Section(
    "Running and testing (Moorage's own)",
    (
        yes("`moorage_worker`, `moorage_runtime`", "tests/host/test_pytest_plugin.py::test_both_fixtures_in_both_modes",
            "tests/host/test_pytest_plugin.py::test_beside_xdist"),
        yes("an S3 endpoint on the same buckets", "tests/host/test_pytest_plugin.py::test_an_s3_client_meets_the_same_bucket"),
        yes("reload on save", "tests/host/test_developer.py::test_saving_reloads_and_says_how_long_it_took"),
        yes("tracebacks with the Worker's own lines",
            "tests/host/test_developer.py::test_a_traceback_has_the_lines_of_the_worker_and_of_its_object"),
        yes("breakpoints", "tests/host/test_developer.py::test_a_breakpoint_stops_in_the_worker_and_goes_on"),
        yes("packages of the project's environment",
            "tests/host/test_developer.py::test_packages_of_the_projects_environment"),
    ),
)  # fmt: skip

SECTIONS = (ENTRY, WORKERS, VALUES, OBJECTS, STORAGE, BUCKETS, OTHERS, JAVASCRIPT, WEBSOCKETS, TESTING)
