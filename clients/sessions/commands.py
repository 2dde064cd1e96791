"""Commands as stages: how they are called, what they may say back, how they are ended.

A command runs in the session's folder with its output in the stage's log. Status 0 is success. What it wants recorded
it writes as one JSON object to the file that MOORAGE_SESSION_RESULT names:
`{"skipped": reason}` or `{"outputs": [{"id", "path", "contract"?, "provenance"?}], "generated_configs": [paths],
"metadata": {…}}`, every member optional.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from moorage.protocols.sessions.lifecycle import Result, Skip
from moorage.protocols.sessions.strict_json import NotStrict, parse_object

from .errors import CommandFailed
from .files import measured
from .signals import held_back
from .stages import Returned, StageContext

Command: TypeAlias = str | Sequence[str]

GRACE_SECONDS = 10.0
"""How long a command has between SIGTERM and SIGKILL."""
TAIL_BYTES = 2000
MAX_RESULT_BYTES = 4 * 1024 * 1024


class Declared(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An output that a stage must leave, or that a command reports."""

    id: str
    path: str
    contract: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command may write to its result file."""

    skipped: str | None = None
    outputs: tuple[Declared, ...] = ()
    generated_configs: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    provenance: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class CommandStage:
    """A command, and the outputs that it must leave. `timeout` in seconds, None for none."""

    command: Command
    outputs: tuple[Declared, ...] = ()
    timeout: float | None = None
    environ: Mapping[str, str] | None = None

    def __call__(self, context: StageContext) -> Returned:
        """Runs it. Raises CommandFailed, and SessionFailure for an output that is not there."""
        said = run_command(self.command, context, environ=self.environ, timeout=self.timeout)
        if said.skipped is not None:
            if said.outputs:
                raise CommandFailed("the result has `skipped` and outputs: a skipped stage has none")
            return Skip(said.skipped, generated_configs=said.generated_configs, metadata=said.metadata)
        declared = {entry.id: entry for entry in (*self.outputs, *said.outputs)}
        outputs = tuple(
            measured(context.folder, entry.id, entry.path, entry.contract, entry.provenance)
            for entry in declared.values()
        )
        return Result(outputs, generated_configs=said.generated_configs, metadata=said.metadata)


def arguments(command: Command) -> list[str]:
    """The argument list: a text is run by `sh -c`. CommandFailed for an empty one."""
    if isinstance(command, str):
        if not command.strip():
            raise CommandFailed("the command is empty")
        return ["sh", "-c", command]
    if not command:
        raise CommandFailed("the command is empty")
    return list(command)


def run_command(
    command: Command,
    context: StageContext,
    *,
    name: str | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Said:
    """Runs a command of a stage, or of one artifact `name`, and returns what it said.

    On a cancellation the command's whole process group is ended before the cancellation goes on. Raises
    CommandFailed without a word of the output, which may hold what must not enter a manifest; its last line is said.
    """
    result_path = context.run_folder / f"{context.stage}{f'.{_safe(name)}' if name else ''}.result.json"
    result_path.unlink(missing_ok=True)
    environment = {
        **os.environ,
        **(environ or {}),
        "MOORAGE_SESSION_FOLDER": str(context.folder),
        "MOORAGE_SESSION_RUN_FOLDER": str(context.run_folder),
        "MOORAGE_SESSION_CAMPAIGN": context.manifest.campaign,
        "MOORAGE_SESSION_ID": context.manifest.session_id,
        "MOORAGE_SESSION_RUN_ID": context.run_id,
        "MOORAGE_SESSION_STAGE": context.stage,
        "MOORAGE_SESSION_RESULT": str(result_path),
    }
    log = context.folder / context.log_path
    status = _run(arguments(command), context.folder, environment, log, timeout)
    if status != 0:
        if line := _last_line(log):
            context.say(line)
        what = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        raise CommandFailed(f"the command ended with {what} (log: {context.log_path})")
    return _read_result(result_path)


def _safe(name: str) -> str:
    # keys of artifacts are free texts
    import hashlib

    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _run(argv: list[str], folder: Path, environ: Mapping[str, str], log: Path, timeout: float | None) -> int:
    process = None
    with open(log, "ab") as output:
        try:
            with held_back() as came:
                process = subprocess.Popen(
                    argv,
                    cwd=folder,
                    env=dict(environ),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # a group of its own: Ctrl-C reaches this process alone, which then ends the group
                    start_new_session=True,
                )
            if came:
                raise KeyboardInterrupt
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            if process is not None:
                _end(process)
            raise CommandFailed(f"the command took longer than {timeout:g} s and was ended") from None
        except OSError as error:
            raise CommandFailed(f"{argv[0]}: it did not begin: {error.strerror or error}") from None
        except BaseException:
            if process is not None:
                _end(process)
            raise


def _end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM to the group, SIGKILL to what is left of it after the grace."""
    with held_back():
        for number, grace in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace)
                break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    """The last line of a log, for a person: it may hold what must not enter a manifest."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""


def _read_result(path: Path) -> Said:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_RESULT_BYTES + 1)
    except FileNotFoundError:
        return Said()
    if len(data) > MAX_RESULT_BYTES:
        raise CommandFailed(f"the result {path.name} is longer than {MAX_RESULT_BYTES} bytes")
    try:
        return msgspec.convert(parse_object(data), Said)
    except (NotStrict, msgspec.ValidationError) as error:
        raise CommandFailed(f"the result {path.name} is not what a command may say: {error}") from None
