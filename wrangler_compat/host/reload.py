"""`dev` loads a Worker again when its files change; storage and alarms are kept."""

import logging
import time
import traceback
from pathlib import Path

from watchfiles import DefaultFilter, awatch

from .host import Host
from .server import Serving

_log = logging.getLogger("moorage.host")

_NAMED = (".dev.vars", ".env", ".assetsignore")
_WATCHED = (".py", ".toml", ".json", ".jsonc", ".html", ".css", ".js", ".sql", ".txt", ".md")


class _Filter(DefaultFilter):
    def __init__(self, state: Path) -> None:
        super().__init__()
        self._state = str(state.resolve())

    def __call__(self, change: object, path: str) -> bool:
        if path.startswith(self._state):
            return False
        name = Path(path).name
        return super().__call__(change, path) and (path.endswith(_WATCHED) or name.startswith(_NAMED))  # type: ignore[arg-type]


def watched(host: Host) -> list[Path]:
    """Folders whose changes matter: those of the configurations and of the modules."""
    folders = {worker.config.folder for worker in host.workers} | {
        worker.config.import_root for worker in host.workers if worker.config.import_root
    }
    folders |= {folder.resolve() for folder in host.folders}
    kept = [
        folder for folder in folders if not any(other != folder and folder.is_relative_to(other) for other in folders)
    ]
    return sorted(kept)


async def watch(serving: Serving) -> None:
    """Reloads on every change, until it is cancelled. An error in the new code is printed and answered with."""
    host = serving.host
    async for changes in awatch(*watched(host), watch_filter=_Filter(host.settings.state), debounce=50, step=20):
        names = ", ".join(sorted({Path(path).name for _, path in changes}))
        started = time.perf_counter()
        try:
            await host.reload()
        except Exception as error:
            _log.error("%s changed, and the Worker cannot be started:\n%s", names, own_traceback(error))
        else:
            _log.info("%s changed: reloaded in %.0f ms", names, (time.perf_counter() - started) * 1000)


def own_traceback(error: BaseException) -> str:
    """The traceback without the host's own frames."""
    here = str(Path(__file__).parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(here)]
    frames = [frame for frame in frames if not frame.filename.startswith("<frozen importlib")]
    return "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)]).rstrip()
