"""The chapter's first five minutes, as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

CHAPTER = Path(__file__).parents[2] / "docs" / "jobs.md"


def test_the_first_five_minutes(tmp_path: Path) -> None:
    section = CHAPTER.read_text().split("## Five minutes")[1].split("\n## ")[0]
    script = "set -e\n" + "\n".join(re.findall(r"```sh\n(.*?)```", section, re.S))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "completed" in done.stdout
    assert '"sentence": "A pump and its weekly check."' in done.stdout
