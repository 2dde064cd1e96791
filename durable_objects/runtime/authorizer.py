"""What SQL of user code may do (semantics 9.11 to 9.15). SQLite asks at prepare time, once per action."""

import sqlite3
from typing import Final

FUNCTIONS: Final = frozenset(
    [
        "abs",
        "changes",
        "char",
        "coalesce",
        "concat",
        "concat_ws",
        "format",
        "glob",
        "hex",
        "ifnull",
        "iif",
        "instr",
        "last_insert_rowid",
        "length",
        "like",
        "likelihood",
        "likely",
        "load_extension",
        "lower",
        "ltrim",
        "max_scalar",
        "min_scalar",
        "nullif",
        "octet_length",
        "printf",
        "quote",
        "random",
        "randomblob",
        "replace",
        "round",
        "rtrim",
        "sign",
        "soundex",
        "substr",
        "substring",
        "total_changes",
        "trim",
        "typeof",
        "unhex",
        "unicode",
        "unlikely",
        "upper",
        "zeroblob",
        "date",
        "time",
        "datetime",
        "julianday",
        "unixepoch",
        "strftime",
        "timediff",
        "current_date",
        "current_time",
        "current_timestamp",
        "avg",
        "count",
        "group_concat",
        "max",
        "min",
        "string_agg",
        "sum",
        "total",
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "cume_dist",
        "ntile",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "nth_value",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "ceil",
        "cos",
        "cosh",
        "degrees",
        "exp",
        "floor",
        "ln",
        "log",
        "log2",
        "mod",
        "pi",
        "pow",
        "radians",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
        "json",
        "jsonb",
        "json_array",
        "jsonb_array",
        "json_array_length",
        "json_extract",
        "jsonb_extract",
        "->",
        "->>",
        "json_insert",
        "jsonb_insert",
        "json_object",
        "jsonb_object",
        "json_patch",
        "jsonb_patch",
        "json_remove",
        "jsonb_remove",
        "json_replace",
        "jsonb_replace",
        "json_set",
        "jsonb_set",
        "json_type",
        "json_valid",
        "json_quote",
        "json_group_array",
        "jsonb_group_array",
        "json_group_object",
        "jsonb_group_object",
        "json_each",
        "json_tree",
        "match",
        "highlight",
        "bm25",
        "snippet",
        "rtreecheck",
        "sqlite_rename_column",
        "sqlite_rename_table",
        "sqlite_rename_test",
        "sqlite_drop_column",
        "sqlite_rename_quotefix",
    ]
)

_RESERVED_PREFIX: Final = "_cf_"


def reserved(name: str | None) -> bool:
    """Whether a table, index, trigger or view name belongs to the runtime."""
    return name is not None and name[:4].lower() == _RESERVED_PREFIX


_SWITCHES: Final = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0"})


def _anything(argument: str | None) -> bool:
    return True


def _nothing(argument: str | None) -> bool:
    return argument is None


def _number(argument: str | None) -> bool:
    try:
        return argument is None or int(argument, 0) is not None
    except ValueError:
        return False


def _switch(argument: str | None) -> bool:
    return argument is None or argument.lower() in _SWITCHES


def _name(argument: str | None) -> bool:
    return argument is not None and not reserved(argument)


def _name_or_nothing(argument: str | None) -> bool:
    return not reserved(argument)


# What an allowed pragma may be called with (semantics 9.13): names of the runtime's tables are no arguments.
PRAGMAS: Final = {
    "table_list": _anything,
    "table_info": _name,
    "table_xinfo": _name,
    "index_list": _name,
    "index_info": _name,
    "index_xinfo": _name,
    "foreign_key_list": _name,
    "foreign_key_check": _name_or_nothing,
    "quick_check": _name_or_nothing,
    "optimize": _number,
    "data_version": _nothing,
    "case_sensitive_like": _switch,
    "foreign_keys": _switch,
    "defer_foreign_keys": _switch,
    "ignore_check_constraints": _switch,
    "legacy_alter_table": _switch,
    "recursive_triggers": _switch,
    "reverse_unordered_selects": _switch,
}

VIRTUAL_TABLES: Final = frozenset({"fts5", "fts5vocab"})

# Compile-time and connection-level limits of the platform's SQLite (semantics, limits table).
LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: 2_200_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_100,  # exec() itself refuses beyond 100,000; EXPLAIN needs a prefix
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 5,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 127,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
}

# Actions whose first argument names something that may not be reserved; the second too where it is a table.
_NAMING: Final = frozenset(
    {
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TABLE,
        sqlite3.SQLITE_DROP_TRIGGER,
        sqlite3.SQLITE_DROP_VIEW,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_ANALYZE,
        sqlite3.SQLITE_DROP_VTABLE,
    }
)
_SECOND_IS_TABLE: Final = frozenset(
    {
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TRIGGER,
    }
)
_ALWAYS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})
_NEVER: Final = frozenset(
    {
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_CREATE_TEMP_INDEX,
        sqlite3.SQLITE_CREATE_TEMP_TABLE,
        sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
        sqlite3.SQLITE_CREATE_TEMP_VIEW,
        sqlite3.SQLITE_DROP_TEMP_INDEX,
        sqlite3.SQLITE_DROP_TEMP_TABLE,
        sqlite3.SQLITE_DROP_TEMP_TRIGGER,
        sqlite3.SQLITE_DROP_TEMP_VIEW,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
    }
)


def allowed(action: int, first: str | None, second: str | None) -> bool:
    """Whether user SQL may do `action` with the arguments that SQLite's authorizer passes."""
    if action in _ALWAYS:
        return True
    if action in _NEVER:
        return False
    if action == sqlite3.SQLITE_FUNCTION:
        return (second or "").lower() in FUNCTIONS
    if action == sqlite3.SQLITE_PRAGMA:
        may = PRAGMAS.get((first or "").lower())
        return may is not None and may(second)
    if action == sqlite3.SQLITE_CREATE_VTABLE:
        return not reserved(first) and (second or "").lower() in VIRTUAL_TABLES
    if action == sqlite3.SQLITE_ALTER_TABLE:
        return not reserved(second)
    if action == sqlite3.SQLITE_UPDATE:
        return not reserved(first)
    if action in _NAMING:
        return not reserved(first) and not (action in _SECOND_IS_TABLE and reserved(second))
    return False
