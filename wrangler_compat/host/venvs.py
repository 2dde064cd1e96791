"""Packages of a virtual environment that Moorage itself is not installed in.

Moorage may live in an environment of its own (pipx, a tool runner) while the Worker's packages are in the project's.
"""

import logging
import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_log = logging.getLogger("moorage.host")

NAMES: Final = (".venv", "venv")
_VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


def find(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """The environment whose packages a Worker in `folder` expects: the active one, else `.venv` or `venv` beside its
    configuration. None when there is none, or when it is the one that runs.
    """
    active = environ.get("VIRTUAL_ENV")
    for place in ([Path(active)] if active else []) + [folder / name for name in NAMES]:
        if (place / "pyvenv.cfg").is_file():
            return None if place.resolve() == Path(sys.prefix).resolve() else place.resolve()
    return None


def packages(environment: Path) -> Path | None:
    """The folder of its packages for the Python that runs, or None when it was made for another version."""
    for place in (environment / "lib" / f"python{_VERSION}" / "site-packages", environment / "Lib" / "site-packages"):
        if place.is_dir():
            return place
    return None


def add(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """Puts the packages of the Worker's environment behind all others on `sys.path` and returns their folder.

    Moorage's own dependencies stay the ones that it was installed with. An environment of another Python version is
    warned about.
    """
    environment = find(folder, environ)
    if environment is None:
        return None
    place = packages(environment)
    if place is None:
        _log.warning(
            "%s was made for another version of Python: its packages are not used, this is Python %s",
            environment,
            _VERSION,
        )
        return None
    if str(place) not in sys.path:
        site.addsitedir(os.fspath(place))
        _log.info("packages of %s", environment)
    return place
