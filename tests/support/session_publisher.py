"""A process that runs a session and is killed after one publish step: `python -m … FOLDER RUN_ID STEP`."""

import os
import signal
import sys
from pathlib import Path

from moorage.clients.sessions.assembly import stages_of, store_of
from moorage.clients.sessions.runner import Runner
from moorage.clients.sessions.settings import load


def main(folder: Path, run_id: str, wanted: str) -> None:
    """Runs the whole session as `run_id`; SIGKILL right after the step `wanted`."""

    def step(name: str) -> None:
        if name == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    session = load(folder)
    store = store_of(session)
    stages = stages_of(session, store, step=step)
    Runner(folder, store, stages, session.projection(run_id), inputs=session.prepared).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
