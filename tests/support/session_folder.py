"""A session of eleven stages as commands, in a folder, driven through the command line or the runner."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from moorage.clients import cli
from moorage.clients.sessions.assembly import stages_of, store_of
from moorage.clients.sessions.runner import Runner
from moorage.clients.sessions.settings import Session, load
from moorage.protocols.sessions import NARRATIO

ROSTER = ["Aurelia Quickfoot", "Bramwell the Stout"]

CONFIG = """
campaign = "north"
session_id = "s01"
spool = "spool"

[remote]
kind = "file"
bucket = "snapshots"
state_folder = "../state"

[inputs.party]
path = "party.json"
source = "campaign/north/party"
[inputs.players]
path = "prepared/players.json"
derived_from_party = true

[stages.prepare]
command = '''echo prepare >> calls && mkdir -p prepared spool &&
  cp party.json prepared/players.json && cp talk.wav spool/'''
semantics = {mode = "canonical"}

[stages.transcribe]
command = "echo transcribe >> calls && cat talk.wav > t.txt"
outputs = [{id = "text", path = "t.txt"}]
semantics = {model = "small"}

[stages.merge]
command = "echo merge >> calls && cp t.txt m.txt"
outputs = [{id = "text", path = "m.txt"}]

[stages.polish]
command = '''echo polish >> calls && echo '{"skipped": "nothing to polish"}' > "$MOORAGE_SESSION_RESULT"'''

[stages.normalize]
command = "echo normalize >> calls && cp m.txt n.txt"

[stages.trim]
command = ["sh", "-c", "echo trim >> calls && cp n.txt tr.txt"]

[stages.render]
command = "echo render >> calls && cp tr.txt r.txt"
outputs = [{id = "page", path = "r.txt"}]

[stages.extract]
command = "echo extract >> calls && cp tr.txt e.txt"
outputs = [{id = "refs", path = "e.txt"}]

[stages.analyze.artifacts.summary]
command = 'echo summary >> calls && cat e.txt > "$MOORAGE_SESSION_OUTPUT"'
output = "out/summary.md"
reads = ["extract/refs"]
[stages.analyze.artifacts.recap]
command = 'echo recap >> calls && (echo recap; cat out/summary.md) > "$MOORAGE_SESSION_OUTPUT"'
output = "out/recap.md"
reads = []
depends_on = ["summary"]
[stages.analyze.artifacts.cast]
command = 'echo cast >> calls && cat r.txt > "$MOORAGE_SESSION_OUTPUT"'
output = "out/cast.md"
reads = ["render/page"]
family = "people"
character_id = "all"

[stages.publish]
cleanup = ["spool/talk.wav"]

[stages.notify]
command = "echo notify >> calls"
"""

STAGES = list(NARRATIO.order)
DONE = {name: "skipped" if name == "polish" else "succeeded" for name in STAGES}
CALLS = [*STAGES[:8], "summary", "recap", "cast", "notify"]
ALL_CURRENT = {"summary": "current", "recap": "current", "cast": "current"}


class SessionFolder:
    """A session's folder below `root`; `calls`: the stages and artifacts really made since asked last."""

    def __init__(self, root: Path, config: str = CONFIG, name: str = "session") -> None:
        self.root = root
        self.folder = root / name
        self.folder.mkdir(parents=True)
        self.write("moorage.session.toml", config)
        self.write("party.json", json.dumps(ROSTER))
        self.write("talk.wav", "hello\n")

    def write(self, name: str, text: str) -> None:
        """Writes a file of the session."""
        (self.folder / name).write_text(text)

    def edit(self, old: str, new: str) -> None:
        """Replaces a piece of the configuration that is there once."""
        path = self.folder / "moorage.session.toml"
        text = path.read_text()
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new))

    def command(self, *arguments: str) -> Result:
        """`moorage session …` in this folder."""
        name, *rest = arguments
        return CliRunner().invoke(cli.main, ["session", name, "-C", str(self.folder), *rest])

    def run(self, *arguments: str, status: int = 0) -> dict[str, str]:
        """`moorage session run …`; the action for each stage that was reached."""
        result = self.command("run", "--json", *arguments)
        assert result.exit_code == status, (result.output, result.exception)
        if not result.stdout.strip():
            return {}
        return {row["stage"]: row["action"] for row in json.loads(result.stdout)["stages"]}

    def plan(self, *arguments: str) -> dict[str, str]:
        """`moorage session plan …`."""
        result = self.command("plan", "--json", *arguments)
        assert result.exit_code == 0, result.output
        return {row["stage"]: row["action"] for row in json.loads(result.stdout)["stages"]}

    @property
    def calls(self) -> list[str]:
        """What was called since this was asked last."""
        path = self.folder / "calls"
        found = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as it lies on disk."""
        value: dict[str, Any] = json.loads((self.folder / "session-manifest.json").read_bytes())
        return value

    @property
    def states(self) -> dict[str, str]:
        """The state of each stage."""
        return {name: record["status"] for name, record in self.manifest["stages"].items()}

    @property
    def dispositions(self) -> dict[str, str]:
        """The disposition of each artifact."""
        records = self.manifest["stages"]["analyze"]["analyze_artifacts"]
        return {key: record["disposition"] for key, record in records.items()}

    def tree(self) -> dict[str, bytes]:
        """Every file and folder below the root, with its bytes."""
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else b""
            for path in sorted(self.root.rglob("*"))
        }

    def session(self) -> Session:
        """The resolved configuration."""
        return load(self.folder)

    def runner(
        self,
        run_id: str,
        *,
        step: Callable[[str], None] = lambda name: None,
        write: Callable[[Path, bytes], None] | None = None,
        open_objects: Callable[[], Any] | None = None,
        artifacts: Sequence[str] | None = None,
    ) -> Runner:
        """A runner with its seams: publish steps, how the manifest is written, and the store of commits."""
        session = self.session()
        store = store_of(session, **({} if write is None else {"write": write}))
        stages = stages_of(
            session,
            store,
            artifacts=None if artifacts is None else tuple(artifacts),
            open_objects=open_objects,
            step=step,
        )
        return Runner(self.folder, store, stages, session.projection(run_id), inputs=session.prepared)


__all__ = ["ALL_CURRENT", "CALLS", "CONFIG", "DONE", "ROSTER", "STAGES", "SessionFolder"]
