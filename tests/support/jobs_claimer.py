"""A process that claims from a queue until it is empty: `python -m tests.support.jobs_claimer FOLDER [record]`.

Prints one line for each job, `id nonce`; waits for a line on standard input before it begins. With `record` it closes
each job as failed before the next claim.
"""

import sys
from pathlib import Path

from moorage.clients.jobs.local import LocalQueue


def main() -> None:
    with LocalQueue.open(Path(sys.argv[1])) as queue:
        print("ready", flush=True)
        sys.stdin.readline()
        while (job := queue.call("claim", {})["job"]) is not None:
            print(job["id"], job["nonce"])
            if sys.argv[2:] == ["record"]:
                queue.call("record", {"id": job["id"], "nonce": job["nonce"], "status": "failed"})


if __name__ == "__main__":
    main()
