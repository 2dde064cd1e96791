"""A disk as a power cut leaves it: per file the durable bytes and the writes that were never synced.

The system calls of a traced process are replayed; at any point an image of the disk can be built in which pending
writes are lost, kept, kept up to a point, or kept at random and torn at sector boundaries.
"""

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SECTOR = 512
KINDS = ("none", "all", "prefix", "random", "random")
"""Of the images that are built of the disk at every cut."""
CALLS = (
    "openat,open,creat,pwrite64,write,fdatasync,fsync,ftruncate,truncate,unlink,unlinkat,rename,renameat,renameat2,"
    "link,linkat"
)

_LINE = re.compile(r"^(?P<thread>\d+)\s+(?P<rest>.*)$")
_CALL = re.compile(r"^(?P<name>\w+)\((?P<args>.*)\)\s+= (?P<result>-?\d+|0x[0-9a-f]+)(?P<tail>.*)$", re.DOTALL)
_DESCRIPTOR = re.compile(r"^\d+<(?P<path>[^>]*)>")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')


@dataclass(frozen=True, slots=True)
class Call:
    """One finished system call: who made it, its name, its arguments as text, its result."""

    thread: int
    name: str
    arguments: str
    result: int


def calls(trace: Path) -> Iterator[Call]:
    """Yields the calls of a trace in the order in which they ended, joining the halves of interrupted lines."""
    open_halves: dict[int, str] = {}
    for line in trace.read_text(encoding="latin-1").splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        thread, rest = int(match["thread"]), match["rest"]
        if rest.endswith("<unfinished ...>"):
            open_halves[thread] = rest.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)$", rest, re.DOTALL)
        if resumed:
            rest = open_halves.pop(thread, "") + resumed[1]
        call = _CALL.match(rest)
        if call:
            yield Call(thread, call["name"], call["args"], int(call["result"], 0))


def strings(arguments: str) -> list[bytes]:
    """The string arguments of a call traced with `-xx`. Raises AssertionError for one that was cut."""
    found = []
    for text, cut in _STRING.findall(arguments):
        assert not cut, "the trace was made with too small a -s"
        found.append(bytes.fromhex(text.replace("\\x", "")))
    return found


def descriptor_path(arguments: str) -> str | None:
    """The path that `-y` shows for the first argument."""
    match = _DESCRIPTOR.match(arguments)
    if not match:
        return None
    return re.sub(r"\\x([0-9a-f]{2})", lambda byte: chr(int(byte[1], 16)), match["path"])


@dataclass
class _File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(
        default_factory=list
    )  # (offset, data), or (size, None): truncated

    def sync(self) -> None:
        for write in self.pending:
            apply(self.durable, write)
        self.pending.clear()


def apply(content: bytearray, write: tuple[int, bytes | None]) -> None:
    """Applies one write or truncation to a file's bytes."""
    offset, data = write
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk:
    """Files below `root`. `ignored` threads' syncs do nothing: the control, in which writes must be lost.

    `ordered`: names come and go in order, as journalling file systems have it; else each for itself, and none with
    the sync of its file.
    """

    def __init__(self, root: str, ignored: frozenset[int] = frozenset(), *, ordered: bool = False) -> None:
        self._root = root
        self._ignored = ignored
        self._ordered = ordered
        self._files: dict[int, _File] = {}
        self._names: dict[str, int] = {}  # as the running system sees them
        self._durable_names: dict[str, int] = {}
        self._name_changes: list[tuple[str, str, int | None]] = []  # (folder, path, file or None)
        self._next = 0

    def _ours(self, path: str | None) -> bool:
        return path is not None and path.startswith(self._root) and not path.endswith("-shm")

    def _set(self, path: str, number: int | None) -> None:
        if number is None:
            self._names.pop(path, None)
        else:
            self._names[path] = number
        self._name_changes.append((path.rpartition("/")[0], path, number))

    def _file(self, path: str) -> _File:
        if path not in self._names:
            self._files[self._next] = _File()
            self._set(path, self._next)
            self._next += 1
        return self._files[self._names[path]]

    def replay(self, call: Call) -> None:
        """Takes one call in."""
        if call.result < 0:
            return
        path = descriptor_path(call.arguments)
        match call.name:
            case "openat" | "open" | "creat":
                named = strings(call.arguments)[0].decode()
                if self._ours(named) and ("O_CREAT" in call.arguments or call.name == "creat"):
                    file = self._file(named)
                    if "O_TRUNC" in call.arguments:
                        file.pending.append((0, None))
            case "pwrite64" if self._ours(path):
                offset = int(call.arguments.rpartition(",")[2])
                self._file(str(path)).pending.append((offset, strings(call.arguments)[0][: call.result]))
            case "write" if self._ours(path):
                file = self._file(str(path))
                data = strings(call.arguments)[0][: call.result]
                file.pending.append((self._length(file), data))
            case "ftruncate" if self._ours(path):
                self._file(str(path)).pending.append((int(call.arguments.rpartition(",")[2]), None))
            case "fdatasync" | "fsync" if path is not None and call.thread not in self._ignored:
                self._synced(path)
            case "unlink" | "unlinkat":
                named = strings(call.arguments)[0].decode()
                if self._ours(named):
                    self._set(named, None)
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                old, new = (text.decode() for text in strings(call.arguments)[:2])
                if self._ours(old) and old in self._names:
                    number = self._names[old]
                    if call.name.startswith("rename"):
                        self._set(old, None)
                    self._set(new, number)

    def _length(self, file: _File) -> int:
        content = bytearray(file.durable)
        for write in file.pending:
            apply(content, write)
        return len(content)

    def _synced(self, path: str) -> None:
        if self._ordered:
            whom = self._names.get(path)
            last = max(
                (index for index, (at, _, number) in enumerate(self._name_changes) if path == at or number == whom),
                default=-1,
            )
            for _, name, number in self._name_changes[: last + 1]:
                self._rename_durably(name, number)
            del self._name_changes[: last + 1]
        if path in self._names:
            self._files[self._names[path]].sync()
            # Syncing a new file makes its own entry durable on the file systems we know; be strict: it does not.
            return
        kept = []
        for change in self._name_changes:
            folder, name, number = change
            if folder == path:
                self._rename_durably(name, number)
            else:
                kept.append(change)
        self._name_changes = kept

    def _rename_durably(self, name: str, number: int | None) -> None:
        if number is None:
            self._durable_names.pop(name, None)
        else:
            self._durable_names[name] = number

    def image(self, target: Path, rng: random.Random, kind: str) -> None:
        """Writes the disk after a cut: `none`, `all`, `prefix` of the pending writes, or a `random` torn subset."""
        keep: Callable[[], bool] = {
            "none": lambda: False,
            "all": lambda: True,
            "prefix": lambda: False,
            "random": lambda: rng.random() < 0.5,
        }[kind]
        names = dict(self._durable_names)
        until = rng.randrange(len(self._name_changes) + 1)
        for index, (_, name, number) in enumerate(self._name_changes):
            kept = keep() or (kind == "prefix" and rng.random() < 0.5)
            if index < until if self._ordered and kind not in {"none", "all"} else kept:
                if number is None:
                    names.pop(name, None)
                else:
                    names[name] = number
        for name, number in names.items():
            file = self._files[number]
            content = bytearray(file.durable)
            stop = rng.randrange(len(file.pending) + 1) if kind == "prefix" else len(file.pending)
            for index, write in enumerate(file.pending):
                if kind == "prefix":
                    if index < stop:
                        apply(content, write)
                elif keep():
                    apply(content, _torn(write, rng) if kind == "random" else write)
            path = target / Path(name).relative_to(self._root)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _torn(write: tuple[int, bytes | None], rng: random.Random) -> tuple[int, bytes | None]:
    offset, data = write
    if data is None or len(data) <= SECTOR or rng.random() < 0.5:
        return write
    return offset, data[: SECTOR * rng.randrange(1, len(data) // SECTOR + 1)]


def traced(workload: Path, folder: Path, writes: int) -> list[Call]:
    """Runs `workload FOLDER WRITES` under strace; returns its calls. Skips the test where that is not allowed."""
    trace = folder / "trace"
    command = ["strace", "-f", "-xx", "-y", "-s", "600000", "-e", f"trace={CALLS}", "-o", str(trace)]
    done = subprocess.run(
        [*command, sys.executable, str(workload), str(folder), str(writes)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode != 0 and "ptrace" in done.stderr.lower():
        pytest.skip("this machine does not let processes be traced")
    assert done.returncode == 0, done.stderr
    found = list(calls(trace))
    trace.unlink()
    return found


def _note(call: Call) -> str:
    """What a `write` says, for the notes of a workload; empty for other calls."""
    return strings(call.arguments)[0].decode("latin-1") if call.name == "write" else ""


async def replayed(
    found: list[Call],
    folder: Path,
    target: Path,
    cuts: int,
    *,
    note: Callable[[str], bool],
    lost: Callable[[Path], Awaitable[int]],
    ignore_our_syncs: bool,
    ordered: bool = False,
) -> tuple[int, int]:
    """Replays the calls and cuts the power at `cuts` points, each in five ways.

    `note` takes a line that the workload wrote in, and says whether it was one of its notes; `lost` counts the
    acknowledged writes that the image in a folder lacks. Returns images built, and those that lack one. With
    `ignore_our_syncs` the syncs of the threads that the workload named (`SYNCERS`) do nothing. `ordered`: see `Disk`.
    """
    notes = (_note(call) for call in found)
    syncers = next((line.split()[1:] for line in notes if line.startswith("SYNCERS ")), [])
    assert syncers, "the workload did not say which threads sync"
    disk = Disk(str(folder), frozenset(map(int, syncers)) if ignore_our_syncs else frozenset(), ordered=ordered)
    rng = random.Random(11)
    points = set(rng.sample(range(len(found)), min(cuts, len(found))))
    images = failures = 0
    for index, call in enumerate(found):
        line = _note(call)
        if not line.startswith("SYNCERS ") and not note(line):
            disk.replay(call)
        if index in points:
            for kind in KINDS:
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                disk.image(target, rng, kind)
                images += 1
                failures += await lost(target) > 0
    return images, failures
