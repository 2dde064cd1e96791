"""Random lives of the artifact stage: a run without faults leaves every artifact current and not outdated."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.clients.sessions.analyze import ArtifactStage
from moorage.clients.sessions.errors import SessionFailure
from moorage.clients.sessions.runner import Runner
from moorage.clients.sessions.stages import Stage, StageContext
from moorage.clients.sessions.store import LocalStore
from moorage.protocols.sessions import Pipeline, Projection, SessionManifest, StageSpec
from moorage.protocols.sessions.artifacts import Configuration, Configured
from moorage.protocols.sessions.fingerprints import fingerprint

PIPELINE = Pipeline([StageSpec("make"), StageSpec("ship", ("make",))], artifact_stage="make")
DEPENDS: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "z": ()}
KEYS = tuple(DEPENDS)


class Life:
    """Artifacts whose bytes come from a few possible contents, so that a rebuilt one may be the same again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prompts = dict.fromkeys(KEYS, 0)
        self.made: list[str] = []
        self.runs = 0

    def expected(self, key: str) -> str:
        """The bytes of an artifact, were everything made from scratch now. Every other prompt says the same."""
        parts = [key, str(self.prompts[key] // 2), *(self.expected(other) for other in DEPENDS[key])]
        return hashlib.sha256("/".join(parts).encode()).hexdigest()

    def _configure(self, manifest: SessionManifest) -> Configuration:
        return Configuration(
            Configured(key, DEPENDS[key], key, f"{key}.md", {}, fingerprint(1, [key, self.prompts[key]]))
            for key in KEYS
        )

    def run(self, selected: tuple[str, ...] | None, failing: str, broken_save: int, force: bool) -> Exception | None:
        self.runs += 1
        left = broken_save

        def write(path: Path, data: bytes) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(28, "No space left on device")
            path.write_bytes(data)

        def make(context: StageContext, configured: Configured) -> Any:
            key = configured.key
            parts = [key, str(self.prompts[key] // 2), *((self.folder / f"{k}.md").read_text() for k in DEPENDS[key])]
            (self.folder / configured.path).write_text(hashlib.sha256("/".join(parts).encode()).hexdigest())
            if key == failing:
                # after new bytes were written: they stay, and count for nothing
                raise SessionFailure("on purpose")
            self.made.append(key)

        stage = ArtifactStage("make", self.folder, self._configure, dict.fromkeys(KEYS, make), selected)
        stages = [Stage("make", stage, None, stage.validate), Stage("ship", lambda context: None)]
        store = LocalStore(self.folder / "m.json", PIPELINE, write=write)
        runner = Runner(self.folder, store, stages, Projection("n", "s", f"r{self.runs}"))
        try:
            runner.run(force=["make"] if force else [])
        except SessionFailure as error:
            return error
        return None

    def records(self) -> dict[str, Any]:
        """The records as they lie on disk."""
        manifest = LocalStore(self.folder / "m.json", PIPELINE).load()
        found = None if manifest is None else manifest.stages["make"].analyze_artifacts
        return found if isinstance(found, dict) else {}


STEP = st.tuples(
    st.lists(st.sampled_from(KEYS), max_size=2),
    st.lists(st.sampled_from(KEYS), max_size=1),
    st.none() | st.lists(st.sampled_from(KEYS), min_size=1, max_size=2).map(tuple),
    st.sampled_from(["", "", *KEYS]),
    st.sampled_from([0, 0, 0, 2, 3, 4, 5, 6, 8]),
    st.booleans(),
)


@given(st.lists(STEP, max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_run_without_faults_leaves_everything_current(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for prompts, removed, selected, failing, broken_save, force in steps:
            for key in prompts:
                life.prompts[key] += 1
            for key in removed:
                (life.folder / f"{key}.md").unlink(missing_ok=True)
            life.run(selected, failing, broken_save, force)
            if selected is not None and not failing and not broken_save and (life.folder / "m.json").exists():
                closure = life._configure(None).closure(selected)  # type: ignore[arg-type]
                for key in closure:
                    assert (life.folder / f"{key}.md").read_text() == life.expected(key)
                    assert life.records()[key].disposition == "current"
        assert life.run(None, "", 0, False) is None
        for key in KEYS:
            assert (life.folder / f"{key}.md").read_text() == life.expected(key), key
        assert {record.disposition for record in life.records().values()} == {"current"}
        life.made.clear()
        assert life.run(None, "", 0, True) is None
        assert life.made == [], "forced, and every artifact is current: nothing is made"


def test_a_rebuilt_artifact_with_the_same_bytes_leaves_its_dependents(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.run(None, "", 0, False)
    assert life.made == ["a", "b", "c", "d", "z"]
    for prompts, made in ((1, ["a"]), (2, ["a", "b", "c", "d"])):
        life.made.clear()
        life.prompts["a"] = prompts
        life.run(None, "", 0, False)
        assert life.made == made
