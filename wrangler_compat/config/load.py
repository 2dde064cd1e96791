"""Finds, reads and checks the configuration of a Worker: the one entry point for hosts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .build import build
from .diagnostics import ConfigError, Report
from .discovery import DiscoveryError, Found, find_config
from .model import WorkerConfig
from .syntax import SyntaxProblem, parse_config
from .validate import validate

ENVIRONMENT_VARIABLE = "CLOUDFLARE_ENV"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was read. `config` is None exactly when `report` has errors."""

    config: WorkerConfig | None
    report: Report

    def require(self) -> WorkerConfig:
        """The configuration. Raises ConfigError, with every error, if there are any."""
        if self.config is None:
            raise ConfigError(self.report)
        return self.config


def load(
    folder: Path,
    *,
    config: Path | None = None,
    environment: str | None = None,
    environ: Mapping[str, str] | None = None,
    follow_redirect: bool = False,
) -> Loaded:
    """Loads the configuration for `folder`, or the file `config`.

    environment: the chosen environment; without it the variable CLOUDFLARE_ENV of `environ` (by default the
    process's) chooses. Without any file the result is the configuration of an empty one. All errors and warnings
    are in the report; nothing is raised.
    """
    variables = os.environ if environ is None else environ
    chosen = environment if environment is not None else variables.get(ENVIRONMENT_VARIABLE)
    chosen = chosen or None
    try:
        found = find_config(folder, config=config, follow_redirect=follow_redirect)
    except DiscoveryError as error:
        report = Report("configuration")
        report.error("no-such-file", None, f"{error}.")
        return Loaded(None, report)
    if found is None:
        checked = validate({}, heading="no configuration file", environment=chosen)
        root = folder.resolve()
        return Loaded(
            build(checked.document, checked.report, path=None, folder=root, environment=chosen), checked.report
        )
    return _load_file(found, chosen)


def _load_file(found: Found, environment: str | None) -> Loaded:
    path = found.path
    heading = str(path)
    try:
        parsed = parse_config(path.read_bytes(), path)
    except (SyntaxProblem, OSError) as error:
        report = Report(heading)
        code = "syntax-error" if isinstance(error, SyntaxProblem) else "unreadable"
        report.error(code, None, f"{error}.")
        return Loaded(None, report)
    # a generated file is the finished configuration of one environment and has none of its own
    chosen = None if found.redirected else environment
    checked = validate(parsed.value, heading=heading, environment=chosen, toml=path.suffix == ".toml")
    report = checked.report
    for key in parsed.duplicate_keys:
        report.warn("duplicate-key", key, f'"{key}" stands twice in one object: the last one counts.')
    if report.all_errors:
        return Loaded(None, report)
    config = build(
        checked.document,
        report,
        path=path,
        folder=path.parent,
        environment=environment,
        user_folder=found.user_path.parent,
    )
    return Loaded(config, report)
