"""Processes that record for one producer while another finalises it: the work, and what must hold afterwards."""

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from moorage.clients.ledger.readers import iter_tree_events
from moorage.clients.ledger.sources import FolderSource

from .support import ENVIRONMENT, real

_PROGRAM = textwrap.dedent(
    """
    import json, sys
    from moorage.clients.ledger.finalise import finalise
    from moorage.clients.ledger.recorder import Recorder
    from moorage.protocols.ledger.refusals import LedgerRefusal

    root, output, role, count, environment = sys.argv[1:]
    recorder = Recorder(root, environment=json.loads(environment))
    result = {"recorded": [], "refused": {}}
    for index in range(int(count)):
        try:
            if role == "finalise":
                finalise(recorder, output)
                result["recorded"].append("finalised")
            else:
                event = recorder.record_phase_event(
                    phase="review.item", status="completed", identity={"writer": role, "index": index},
                    component="lane", subject={"repository": "openclaw/openclaw", "kind": "issue", "number": 1},
                    retryable=False, mutation=False,
                )
                result["recorded"].append(event.event_id)
        except LedgerRefusal as refusal:
            result["refused"][str(index)] = refusal.code
    print(json.dumps(result))
    """
)


@dataclass
class Round:
    """What the processes of one round said."""

    recorded: set[str]
    refused: list[str]
    in_shards: list[str]


def race(folder: Path, writers: int, events: int, finalisations: int) -> Round:
    """One round below `folder`: `writers` processes of one producer, and one that finalises it meanwhile."""
    root, output = folder / "root", folder / "output"
    root.mkdir()
    output.mkdir()
    roles = [(f"w{number}", events) for number in range(writers)] + [("finalise", finalisations)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, real(root), real(output), role, str(count), json.dumps(ENVIRONMENT)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for role, count in roles
    ]
    recorded: set[str] = set()
    refused: list[str] = []
    for (role, count), process in zip(roles, processes, strict=True):
        text, _ = process.communicate(timeout=110)
        assert process.returncode == 0, text
        result = json.loads(text)
        assert len(result["recorded"]) + len(result["refused"]) == count, "every refusal has a name"
        refused += result["refused"].values()
        if role != "finalise":
            recorded.update(result["recorded"])
    last = subprocess.run(
        [sys.executable, "-c", _PROGRAM, real(root), real(output), "finalise", "1", json.dumps(ENVIRONMENT)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(last.stdout) == {"recorded": ["finalised"], "refused": {}}
    shards = [event.event_id for event in iter_tree_events(FolderSource(real(output)))]
    return Round(recorded, refused, shards)


def check(found: Round) -> None:
    """No event lost, none in two shards, refusals of known classes only."""
    assert sorted(found.in_shards) == sorted(found.recorded)
    assert set(found.refused) <= {"sealed", "lock-timeout"}, found.refused
