"""What an operator may set about a host, in one table; the command line and the documentation are made from it."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: the name in `HostSettings`, its default, its unit, what it does; `least` is for numbers."""

    name: str
    default: Any
    unit: str
    help: str
    least: float = 0


SETTINGS: Final = (
    Setting("state", Path(".moorage/state"), "folder", "where objects, buckets and alarms are kept"),
    Setting("host", "127.0.0.1", "address", "address the Worker is served on"),
    Setting("port", 8787, "port", "port the Worker is served on; 0 takes a free one"),
    Setting("admin_host", "127.0.0.1", "address", "address of /metrics and /ready"),
    Setting("admin_port", -1, "port", "port of /metrics, /ready and /live; -1 serves none, 0 takes a free one", -1),
    Setting("r2", "file", "backend", "where buckets are kept: file, memory, moto or s3"),
    Setting("idle_seconds", 10.0, "seconds", "idle time after which an object is evicted from memory"),
    Setting("max_objects", 0, "objects", "objects open at once; 0: what the descriptor limit allows, at most 1,000"),
    Setting("sync_threads", 2, "threads", "threads that make commits durable", 1),
    Setting("max_body", 100 * 1024 * 1024, "bytes", "largest request body; more ends the request with 413"),
    Setting("max_head", 64 * 1024, "bytes", "largest request line with header fields; more is answered with 431", 1),
    Setting("head_seconds", 30.0, "seconds", "how long a request's head may take, and a new connection stay silent"),
    Setting("body_seconds", 60.0, "seconds", "how long a Worker waits for the next piece of a request's body"),
    Setting("socket_message", 32 * 1024 * 1024, "bytes", "largest WebSocket message; more closes with 1009", 1),
    Setting("socket_buffer", 16 * 1024 * 1024, "bytes", "what may wait for a slow WebSocket client; more cuts it"),
    Setting("socket_ping_seconds", 20.0, "seconds", "time between WebSocket pings, and to answer one; 0 sends none"),
    Setting("socket_deflate", False, "switch", "compress WebSocket messages; costs some 50 KB a connection"),
    Setting("drain_seconds", 30.0, "seconds", "how long a stop waits for requests that are running"),
    Setting("access_log", True, "switch", "log a line for every request"),
    Setting("durable", True, "switch", "answer writes once they are synced; off, a power cut loses answered writes"),
    Setting("test_hooks", False, "switch", "POST /__test/clock and /__test/store; on loopback only"),
)


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The settings of one host; defaults are those of `SETTINGS`. Raises ValueError for a number out of its range."""

    state: Path = Path(".moorage/state")
    host: str = "127.0.0.1"
    port: int = 8787
    admin_host: str = "127.0.0.1"
    admin_port: int = -1
    r2: str = "file"
    idle_seconds: float = 10.0
    max_objects: int = 0
    sync_threads: int = 2
    max_body: int = 100 * 1024 * 1024
    max_head: int = 64 * 1024
    head_seconds: float = 30.0
    body_seconds: float = 60.0
    socket_message: int = 32 * 1024 * 1024
    socket_buffer: int = 16 * 1024 * 1024
    socket_ping_seconds: float = 20.0
    socket_deflate: bool = False
    drain_seconds: float = 30.0
    access_log: bool = True
    durable: bool = True
    test_hooks: bool = False

    def __post_init__(self) -> None:
        for row in SETTINGS:
            value = getattr(self, row.name)
            if isinstance(row.default, int | float) and not (math.isfinite(value) and value >= row.least):
                raise ValueError(f"{row.name} is {value}, but must be a number of {row.unit}, {row.least:g} or more")
        if self.test_hooks and self.host not in LOOPBACK:
            raise ValueError(f"test hooks reach into storage and the clock: only on loopback, not on {self.host}")


def documented() -> set[str]:
    """Names that are in one of the table and the class but not in the other; a test holds it empty."""
    return {row.name for row in SETTINGS} ^ {field.name for field in fields(HostSettings)}
