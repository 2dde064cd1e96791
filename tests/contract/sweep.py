"""Plays the recorded sweep sequences through the command line, on files. `run(folder, areas)`."""

import base64
import datetime
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from moorage.clients.sweep.cli import command

from .result import CaseResult, refuse_unknown

FAMILY = "sweep"
EXPECTATIONS = ("exit", "word", "payload", "no_payload", "state_after", "state_unchanged")


class Differs(Exception):
    """A step's result is not the recorded one; the text says where."""


def state_named(argv: list[str], default: Path) -> Path:
    """The state file that a step names; `default` for a step that names none."""
    for index, word in enumerate(argv):
        if word == "--state" and index + 1 < len(argv):
            return Path(argv[index + 1])
        if word.startswith("--state="):
            return Path(word.removeprefix("--state="))
    return default


def content(path: Path) -> bytes | None:
    """The file's bytes; None when there is none."""
    return path.read_bytes() if path.exists() else None


def check_masks(expected: str, found: str, mask: dict[str, str], began: datetime.datetime) -> None:
    """Compares texts where placeholders stand for instants: UTC, with an offset, no older than the call."""
    pattern = re.escape(expected)
    names: list[str] = []
    for placeholder, meaning in mask.items():
        if "ISO 8601 UTC instant" not in meaning:
            raise Differs(f"the mask {meaning!r} is not known")
        names += [placeholder] * expected.count(placeholder)
        pattern = pattern.replace(re.escape(placeholder), '([^"]+)')
    match = re.fullmatch(pattern, found)
    if match is None:
        raise Differs(f"state is {found!r}, not {expected!r}")
    for value in match.groups():
        moment = datetime.datetime.fromisoformat(value)
        if moment.utcoffset() != datetime.timedelta(0) or moment < began:
            raise Differs(f"{value} is no instant in UTC since the call")


def check_output(expect: dict[str, Any], exit_code: int, stdout: str) -> None:
    """Compares exit status, word and payload. Raises Differs."""
    refuse_unknown(expect, EXPECTATIONS, "expect")
    lines = stdout.splitlines()
    if exit_code != expect["exit"]:
        raise Differs(f"exit is {exit_code}, not {expect['exit']}; printed {stdout!r}")
    word = lines[0] if lines else None
    if word != expect["word"]:
        raise Differs(f"word is {word!r}, not {expect['word']!r}")
    if expect.get("no_payload"):
        if len(lines) > 1:
            raise Differs(f"there is a payload: {lines[1:]!r}")
        return
    if len(lines) != 2:
        raise Differs(f"{len(lines)} lines were printed")
    # by text, so that 1, 1.0 and true differ
    found, wanted = (json.dumps(value, sort_keys=True) for value in (json.loads(lines[1]), expect["payload"]))
    if found != wanted:
        raise Differs(f"payload is {found}, not {wanted}")


def check_state(step: dict[str, Any], before: bytes | None, after: bytes | None, began: datetime.datetime) -> None:
    """Compares the state file with what was recorded. Raises Differs."""
    expect = step["expect"]
    if expect.get("state_unchanged"):
        if after != before:
            raise Differs(f"the state changed to {after!r}")
        return
    wanted: str | None = expect["state_after"]
    if wanted is not None and after is not None and step.get("mask"):
        check_masks(wanted, after.decode(), step["mask"], began)
    elif after != (None if wanted is None else wanted.encode()):
        raise Differs(f"state is {after!r}, not {wanted!r}")


def lay(sequence: dict[str, Any], folder: Path) -> Path:
    """Lays the files that a sequence starts from; the state file's path."""
    state = folder / "sweep-state.yaml"
    if "state_before_b64" in sequence:
        state.write_bytes(base64.b64decode(sequence["state_before_b64"]))
    elif sequence.get("state_before") is not None:
        state.write_bytes(sequence["state_before"].encode())
    for name, text in sequence.get("files", {}).items():
        (folder / name).write_bytes(text.encode())
    return state


def play(sequence: dict[str, Any], folder: Path) -> None:
    """Plays one sequence in a fresh folder. Raises Differs."""
    state = lay(sequence, folder)
    for number, step in enumerate(sequence["steps"], 1):
        argv = [word.replace("{state}", str(state)).replace("{dir}", str(folder)) for word in step["argv"]]
        named = state_named(argv, state)
        before = content(named)
        began = datetime.datetime.now(datetime.UTC)
        result = CliRunner().invoke(command, argv)
        try:
            check_output(step["expect"], result.exit_code, result.stdout)
            check_state(step, before, content(named), began)
        except Differs as difference:
            raise Differs(f"step {number}: {difference}") from None


def play_case(area: str, sequence: dict[str, Any]) -> CaseResult:
    """One sequence in a folder of its own."""
    divergence = sequence.get("divergence")
    note = f"{divergence['code']}: the text's answer is the one that holds" if divergence else ""
    with tempfile.TemporaryDirectory() as folder:
        try:
            play(sequence, Path(folder))
        except Exception as failure:
            detail = f"{type(failure).__name__}: {failure}"[:2000]
            return CaseResult(FAMILY, area, sequence["id"], "failed", detail)
    return CaseResult(FAMILY, area, sequence["id"], "passed", note)


def run(folder: Path, areas: list[str]) -> Iterator[CaseResult]:
    """Results of every case below `folder` (the family's folder, or the one that holds it). No areas means all."""
    if (folder / FAMILY).is_dir():
        folder = folder / FAMILY
    for path in sorted(folder.glob("*.json")):
        if areas and path.stem not in areas:
            continue
        for sequence in json.loads(path.read_text(encoding="utf-8"))["sequences"]:
            yield play_case(path.stem, sequence)
