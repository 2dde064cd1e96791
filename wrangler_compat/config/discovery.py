"""Which file is the configuration (wrangler configuration 1)."""

from dataclasses import dataclass
from pathlib import Path

from .syntax import SyntaxProblem, parse_config
from .values import get

NAMES = ("wrangler.json", "wrangler.jsonc", "wrangler.toml")
"""In the order in which they are looked for, each one up to the root before the next."""

REDIRECT = Path(".wrangler", "deploy", "config.json")


class DiscoveryError(ValueError):
    """The file that was asked for is not there, or a redirect cannot be followed."""


@dataclass(frozen=True, slots=True)
class Found:
    """`path` is what to read, absolute; `user_path` is what the user wrote. They differ behind a build tool's
    redirect.
    """

    path: Path
    user_path: Path

    @property
    def redirected(self) -> bool:
        """Whether a build tool's redirect was followed."""
        return self.path != self.user_path


def find_config(folder: Path, *, config: Path | None = None, follow_redirect: bool = False) -> Found | None:
    """The configuration for `folder`, or None: no file is not an error.

    Every name is searched from `folder` up to the root before the next name is tried, so a `wrangler.json` of a
    parent wins over a `wrangler.toml` here. `config` ends the search. `follow_redirect` obeys
    `.wrangler/deploy/config.json`.

    Raises DiscoveryError if `config` is no file, or the redirect is broken or belongs to another folder.
    """
    if config is not None:
        path = config if config.is_absolute() else Path.cwd() / config
        if not path.is_file():
            raise DiscoveryError(f"there is no configuration file {config}")
        return Found(path.resolve(), path.resolve())
    folder = folder.resolve()
    user_path = next((found for name in NAMES if (found := _upwards(folder, Path(name))) is not None), None)
    redirect = _upwards(folder, REDIRECT) if follow_redirect else None
    if redirect is None:
        return None if user_path is None else Found(user_path, user_path)
    target = _redirect_target(redirect)
    if user_path is not None and user_path.parent / REDIRECT != redirect:
        raise DiscoveryError(
            f"{redirect} redirects to a generated configuration, but {user_path} lies in another folder: delete the "
            "redirect, or run the command in the folder that is meant"
        )
    return Found(target, user_path or target)


def _upwards(folder: Path, name: Path) -> Path | None:
    return next((parent / name for parent in (folder, *folder.parents) if (parent / name).is_file()), None)


def _redirect_target(redirect: Path) -> Path:
    try:
        parsed = parse_config(redirect.read_bytes(), redirect).value
    except SyntaxProblem as error:
        raise DiscoveryError(f"{redirect}: {error}") from None
    target = get(parsed, "configPath") if isinstance(parsed, dict) else None
    if not isinstance(target, str) or not target:
        raise DiscoveryError(f'{redirect} must hold {{"configPath": "<path of the generated configuration>"}}')
    path = (redirect.parent / target).resolve()
    if not path.is_file():
        raise DiscoveryError(f"{redirect} points to {path}, which is not there")
    return path
