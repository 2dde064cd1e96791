"""`dev` loads a Worker again when its files change; storage and alarms are kept."""

import contextlib
import logging
import os
import time
from dataclasses import replace
from pathlib import Path

from watchfiles import DefaultFilter, awatch

from ..config import ConfigError, WorkerConfig, load
from .faults import told
from .host import Host
from .server import Serving

_log = logging.getLogger("moorage.host")

RELOAD_SECONDS = 2.0
"""How long a reload waits for what is running; longer, and the developer would look at the old code."""

_NAMED = (".dev.vars", ".env", ".assetsignore")
_WATCHED = (".env", ".py", ".toml", ".json", ".jsonc", ".html", ".css", ".js", ".sql", ".txt", ".md")


class ReloadingHost(Host):
    """The host of `dev`: a Worker that is broken at the start is waited for until it is mended.

    Requests are answered with the fault meanwhile, as after a reload that failed.
    """

    _tried = False

    async def start(self) -> None:
        """Starts the Workers. At the first call a fault of theirs is told and kept in `failure`.

        Raises OSError and StateInUse for the state folder, and, from the second call on, what `Host.start` raises.
        """
        first, self._tried = not self._tried, True
        try:
            await super().start()
        except (Exception, SystemExit) as error:
            # without the lock it is the state folder that cannot be used, which no change of a file mends
            if not first or not (self._locked or isinstance(error, ConfigError)):
                raise
            self.failure = error
            _log.error("the Worker cannot be started; waiting for a change:\n%s", told(error))

    async def reload(self) -> None:
        """Loads the Workers again. What runs for longer than `RELOAD_SECONDS` is dropped. Raises as `Host.reload`."""
        settings = self.settings
        self.settings = replace(settings, drain_seconds=min(settings.drain_seconds, RELOAD_SECONDS))
        try:
            await super().reload()
        finally:
            self.settings = settings


def _is_output(path: str) -> bool:
    """Whether this process's own output goes to that file."""
    try:
        file = os.stat(path)
        return any(os.path.samestat(file, os.fstat(descriptor)) for descriptor in (1, 2))
    except OSError:
        return False


class _Filter(DefaultFilter):
    def __init__(self, state: Path) -> None:
        super().__init__()
        self._state = state.resolve()

    def __call__(self, change: object, path: str) -> bool:
        if _is_output(path):
            return False  # `moorage dev > log.txt` must not reload for its own lines
        if Path(path).is_relative_to(self._state):
            return False
        name = Path(path).name
        return super().__call__(change, path) and (path.endswith(_WATCHED) or name.startswith(_NAMED))  # type: ignore[arg-type]


def watched(host: Host) -> list[Path]:
    """Folders whose changes matter: those of the configurations and of the modules."""
    folders = {folder.resolve() for folder in host.folders}
    for config in _configurations(host):
        folders |= {
            folder for folder in (config.folder, config.user_folder, config.import_root) if folder is not None
        }
    folders = {folder for folder in folders if folder.is_dir()}
    kept = [
        folder for folder in folders if not any(other != folder and folder.is_relative_to(other) for other in folders)
    ]
    return sorted(kept)


def _configurations(host: Host) -> list[WorkerConfig]:
    """Those of the Workers that run; where none runs, of the files as far as they can be read."""
    if host.workers:
        return [worker.config for worker in host.workers]
    found = [
        load(folder, config=host.config_file, environment=host.environment, environ=host.environ).config
        for folder in host.folders
    ]
    return [config for config in found if config is not None]


async def watch(serving: Serving) -> None:
    """Reloads on every change, until it is cancelled. An error in the new code is printed and answered with."""
    host = serving.host
    while True:
        folders = watched(host)
        changing = awatch(*folders, watch_filter=_Filter(host.settings.state), debounce=50, step=20)
        async with contextlib.aclosing(changing):
            async for changes in changing:
                await _reload(host, ", ".join(sorted({Path(path).name for _, path in changes})))
                if watched(host) != folders:
                    break  # the configuration names other folders now


async def _reload(host: Host, names: str) -> None:
    started = time.perf_counter()
    try:
        await host.reload()
    except (Exception, SystemExit) as error:
        host.failure = error
        _log.error("%s changed, and the Worker cannot be started:\n%s", names, told(error))
    else:
        _log.info("%s changed: reloaded in %.0f ms", names, (time.perf_counter() - started) * 1000)
