"""The variables that a Worker sees as `env.<NAME>`: of the configuration, of files and of the process.

`dev` follows the platform's rules (wrangler configuration 5). `serve` adds that names which are declared (`vars`,
`secrets.required`, names in the files) are also taken from the process's environment, which then wins: a service is
given its secrets that way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .dotenv import expand, parse_dotenv
from .model import WorkerConfig
from .values import JsonValue

Kind = Literal["plain_text", "json", "secret_text"]
Mode = Literal["dev", "serve"]

LOAD_DOT_ENV = "CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV"
INCLUDE_PROCESS_ENV = "CLOUDFLARE_INCLUDE_PROCESS_ENV"
PROCESS = "the process environment"


class VariablesError(ValueError):
    """A file of variables cannot be read, or one that was asked for is not there."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. `kind` is `plain_text` or `json` for those of the configuration, else `secret_text` and masked.

    `source` names the file, or says that it is the process's environment.
    """

    kind: Kind
    value: JsonValue = field(repr=False)
    source: str

    def shown(self) -> str:
        """The value for people: secrets are hidden."""
        return "(hidden)" if self.kind == "secret_text" else repr(self.value)


@dataclass(frozen=True, slots=True)
class Variables:
    """All variables by name, the files that were read in order, and required secrets that nothing sets."""

    values: Mapping[str, Variable]
    files: tuple[Path, ...] = ()
    missing_secrets: tuple[str, ...] = ()


def resolve_variables(
    config: WorkerConfig,
    environ: Mapping[str, str],
    *,
    mode: Mode = "dev",
    env_files: Sequence[Path] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Variables:
    """The variables of `config`, with `environ` as the process's environment.

    env_files: of `--env-file`, relative to the folder of the configuration; they take the place of `.dev.vars`
    and the default `.env` files. overrides: of `--var NAME=VALUE`; they win over everything. Raises
    VariablesError.
    """
    files, from_files = _from_files(config, environ, env_files)
    required = config.required_secrets
    values = {name: Variable(_kind(value), value, "the configuration") for name, value in config.vars.items()}
    # names of `vars` too: the recorded case "required secrets filter the file" keeps the configuration's value
    accepted = {name: v for name, v in from_files.items() if required is None or name in required}
    values.update(accepted)
    if mode == "serve":
        declared = dict.fromkeys((*config.vars, *(required or ()), *accepted))
        values.update(_of_process(environ, declared))
    for name, text in (overrides or {}).items():
        values[name] = Variable("plain_text", text, "the command line")
    missing = tuple(name for name in required or () if name not in values)
    return Variables(values, tuple(files), missing)


def _kind(value: JsonValue) -> Kind:
    return "plain_text" if isinstance(value, str) else "json"


def _of_process(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, Variable]:
    return {name: Variable("secret_text", environ[name], PROCESS) for name in names if name in environ}


def _from_files(
    config: WorkerConfig, environ: Mapping[str, str], env_files: Sequence[Path] | None
) -> tuple[list[Path], dict[str, Variable]]:
    folder = config.user_folder
    if env_files is None:
        names = [f".dev.vars.{config.environment}"] if config.environment else []
        path = next((folder / name for name in (*names, ".dev.vars") if (folder / name).is_file()), None)
        if path is not None:
            secrets = parse_dotenv(_read(path))
            return [path], {name: Variable("secret_text", value, path.name) for name, value in secrets.items()}
        if environ.get(LOAD_DOT_ENV, "").lower() == "false":
            return [], {}
    paths = _dot_env_paths(config, env_files)
    merged: dict[str, tuple[str, str]] = {}
    for path in paths:
        merged.update({name: (value, path.name) for name, value in parse_dotenv(_read(path)).items()})
    # with required secrets the platform reads the process's environment unasked; the caller keeps the required names
    include = environ.get(INCLUDE_PROCESS_ENV, "").lower() == "true" or config.required_secrets is not None
    process = environ if include else {}
    expanded = expand({name: value for name, (value, _) in merged.items()}, process)
    variables = {name: Variable("secret_text", value, merged[name][1]) for name, value in expanded.items()}
    return paths, {**variables, **_of_process(process, process)}


def _dot_env_paths(config: WorkerConfig, env_files: Sequence[Path] | None) -> list[Path]:
    if env_files is not None:
        asked = [config.user_folder / path for path in env_files]
        for path in asked:
            if not path.is_file():
                raise VariablesError(f"there is no file {path} (of --env-file)")
        return asked
    names = [".env", ".env.local"]
    if config.environment:
        names += [f".env.{config.environment}", f".env.{config.environment}.local"]
    return [path for name in names if (path := config.user_folder / name).is_file()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise VariablesError(f"{path} is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise VariablesError(f"{path} cannot be read: {error.strerror}") from None
