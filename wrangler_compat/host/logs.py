"""Logging: readable lines for `dev`, one JSON object a line for `serve`. Never a body, never a secret."""

import json
import logging
import sys
import time
from typing import Any, Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


# Libraries whose ordinary lines are of no use to an operator.
_QUIET: Final = (
    "httpx", "httpcore", "botocore", "boto3", "urllib3", "werkzeug", "watchfiles", "asyncio", "aiosqlite", "uvicorn",
)  # fmt: skip


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message", …extra fields, "exception"}`; the time is UTC with milliseconds."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


class ReadableFormatter(logging.Formatter):
    """`12:34:56 warning  text  key=value`, for people; tracebacks below."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        extra = " ".join(f"{key}={value}" for key, value in vars(record).items() if key not in _STANDARD)
        message = record.getMessage()
        if record.name.endswith(".access"):
            # a client chooses the path: no line of its own making, nothing that a terminal would obey
            message = "".join(char if char.isprintable() else repr(char)[1:-1] for char in message)
        line = f"{moment} {level}{message}" + (f"  {extra}" if extra else "")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(*, as_json: bool, level: int = logging.INFO) -> None:
    """Sends everything to standard error in one of the two forms. Replaces what was set before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else ReadableFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for quiet in _QUIET:
        logging.getLogger(quiet).setLevel(logging.WARNING)
