"""`moorage`: a group whose commands are found through the entry points `moorage.commands` and loaded when called."""

import ast
import errno
import os
import textwrap
from importlib import metadata, util
from pathlib import Path
from typing import Any

import click

from .errors import ClientError

GROUP = "moorage.commands"


def _entry_points() -> dict[str, metadata.EntryPoint]:
    # not metadata.entry_points(): that looks at the first distribution of a name alone, which may be a stale
    # `*.egg-info` in the current folder
    found: dict[str, metadata.EntryPoint] = {}
    for distribution in metadata.distributions():
        for point in distribution.entry_points.select(group=GROUP):
            found.setdefault(point.name, point)
    return found


def summary(point: metadata.EntryPoint) -> str:
    """One line on a command, read from its source without running it.

    It is the docstring of the function that the entry point names, else of its module; empty when there is none.
    """
    try:
        spec = util.find_spec(point.module)
        if spec is None or spec.origin is None:
            return ""
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    except (ImportError, OSError, SyntaxError, ValueError):
        return ""
    found: str | None = None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == point.attr:
            found = ast.get_docstring(node)
    text = (found or ast.get_docstring(tree) or "").strip().split("\n\n")[0]
    return " ".join(text.replace("`", "").split())


class Commands(click.Group):
    """Loads one command at a time; an error of a client or of the system is a line on standard error and status 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_entry_points())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        point = _entry_points().get(cmd_name)
        if point is None:
            return None
        try:
            loaded: Any = point.load()
        except ImportError as error:
            raise click.ClickException(
                f"`moorage {cmd_name}` cannot be loaded: {error}. Commands that serve need the extra: "
                "pip install 'moorage[server]'"
            ) from error
        if not isinstance(loaded, click.Command):
            raise click.ClickException(f"`moorage {cmd_name}`: {point.value} is not a click command")
        return loaded

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click would load every command for one line of help each
        points = _entry_points()
        width = formatter.width - 6 - max((len(name) for name in points), default=0)
        rows = [
            (name, textwrap.shorten(summary(point), max(20, width), placeholder="…"))
            for name, point in sorted(points.items())
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ClientError as error:
            raise click.ClickException(str(error)) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            named = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
            raise click.ClickException(f"{named}{error.strerror or error}") from error


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"moorage {metadata.version('moorage')}")
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def main() -> None:
    """Workers and Durable Objects in plain CPython, and a signed state plane for automation."""


if __name__ == "__main__":
    main()
