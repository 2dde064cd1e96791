"""The two forms of the log."""

import json
import logging
import sys

import pytest

from moorage.wrangler_compat.host.logs import JsonFormatter, ReadableFormatter


def record(message: str, *arguments: object, name: str = "moorage.host", **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": name, "levelno": logging.INFO, "levelname": "INFO", "msg": message})
    made.args = arguments
    made.__dict__.update(extra)
    return made


def test_json_is_one_line_with_the_fields() -> None:
    line = JsonFormatter().format(record("GET %s", "/a\nb", name="moorage.host.access", status=200))
    assert "\n" not in line
    document = json.loads(line)
    assert (document["message"], document["status"], document["level"]) == ("GET /a\nb", 200, "info")


def test_a_path_makes_no_line_of_its_own() -> None:
    line = ReadableFormatter().format(record("GET %s", "/a\nb\x1b[2Jé", name="moorage.host.access", status=200))
    assert line.partition(" ")[2] == r"GET /a\nb\x1b[2Jé  status=200"


def test_other_lines_keep_theirs() -> None:
    line = ReadableFormatter().format(record("one\ntwo"))
    assert line.partition(" ")[2] == "one\ntwo"


@pytest.mark.parametrize("formatter", [JsonFormatter(), ReadableFormatter()])
def test_errors_have_their_traceback(formatter: logging.Formatter) -> None:
    made = record("it failed")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: why" in formatter.format(made)
