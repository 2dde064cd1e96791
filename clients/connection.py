"""Options that every command talking to the state plane has, and what they open."""

import functools
import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .errors import ConfigurationError
from .secret import OPERATOR_VARIABLES, SECRET_VARIABLES

if TYPE_CHECKING:
    from .http import Http

F = TypeVar("F", bound=Callable[..., Any])

URL_VARIABLE = "MOORAGE_URL"


_URL_HELP = (
    f"Address of the state plane. The secret is that of the environment: {', else '.join(SECRET_VARIABLES)}; "
    f"where an operator's is asked for, {OPERATOR_VARIABLES[0]}."
)


def secret_of(environ: Mapping[str, str], names: tuple[str, ...] = SECRET_VARIABLES) -> str:
    """The first of `names` that is set and not blank. Raises ConfigurationError that names them."""
    for name in names:
        if environ.get(name, "").strip():
            return environ[name]
    raise ConfigurationError(f"no secret: set {' or '.join(names)}")


def open_http(url: str | None, signature_version: int = 2, *, operator: bool = False, **options: Any) -> "Http":
    """A synchronous client for the address and the secret of the environment. Raises ConfigurationError."""
    from .http import Http

    if not url:
        raise ConfigurationError(f"no address of the state plane: give --url or set {URL_VARIABLE}")
    names = OPERATOR_VARIABLES if operator else SECRET_VARIABLES
    secret = secret_of(os.environ, names)
    key_id = "operator" if operator else "webhook"
    return Http(url, secret, key_id=key_id, signature_version=signature_version, **options)


def connection_options(function: F) -> F:
    """Adds `--url`, `--signature-version` and `--json`.

    The command gets `http_of`, which opens the client, and `as_json`.
    """

    @click.option("--url", envvar=URL_VARIABLE, show_envvar=True, help=_URL_HELP)
    @click.option(
        "--signature-version",
        type=click.Choice(["1", "2"]),
        default="2",
        show_default=True,
        help="2: HTTP Message Signatures. 1: HMAC of the body alone, for services that know nothing else.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @functools.wraps(function)
    def command(*args: Any, url: str | None, signature_version: str, **options: Any) -> Any:
        return function(*args, http_of=lambda **more: open_http(url, int(signature_version), **more), **options)

    return command  # type: ignore[return-value]


def show(value: Any, as_json: bool, text: str) -> None:
    """Prints `value` as one line of JSON, or `text`."""
    click.echo(json.dumps(value, ensure_ascii=False) if as_json else text)
