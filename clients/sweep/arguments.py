"""Command lines as the reference engine takes them (spec sweep-state 5 and 12).

Scripts written for it rely on what its argument parser does: a flag may be shortened as long as one flag is meant, a
value may follow after `=`, what begins with a dash is a value only when it looks like a negative number or holds a
space, and a flag without its value is misuse, even when another flag follows.
"""

import re
from typing import Any

import click

_NEGATIVE = re.compile(r"-\d+\Z|-\d*\.\d+\Z").match


class OurOption(click.Option):
    """An option that the reference engine does not have. It is never shortened, so that it makes none ambiguous."""


def _is_value(text: str) -> bool:
    return not text.startswith("-") or text == "-" or " " in text or _NEGATIVE(text) is not None


class EngineCommand(click.Command):
    """A subcommand whose flags are read by those rules. Misuse exits with 2 and prints nothing on standard output."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Writes every flag out in full, joined to its value, before click looks at it."""
        return super().parse_args(ctx, self._in_full(ctx, args))

    def _in_full(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {name: option for option in self.get_params(ctx) for name in option.opts if name.startswith("--")}
        shortened = [name for name, option in known.items() if not isinstance(option, OurOption)]
        full: list[str] = []
        rest = list(args)
        while rest:
            given = rest.pop(0)
            name, joined, value = given.partition("=")
            if not name.startswith("--") or name == "--":
                full.append(given)
                continue
            if name not in known:
                name = self._one(ctx, name, shortened)
            option: Any = known[name]
            if joined:
                full.append(f"{name}={value}")
            elif option.is_flag:
                full.append(name)
            else:
                values, rest = rest[: option.nargs], rest[option.nargs :]
                if len(values) < option.nargs or not all(map(_is_value, values)):
                    raise click.UsageError(f"{name} needs {'a value' if option.nargs == 1 else 'two values'}", ctx)
                full.extend([f"{name}={values[0]}"] if option.nargs == 1 else [name, *values])
        return full

    @staticmethod
    def _one(ctx: click.Context, name: str, candidates: list[str]) -> str:
        found = [candidate for candidate in candidates if candidate.startswith(name)]
        if len(found) != 1:
            wrong = f"{name} could be {', '.join(sorted(found))}" if found else f"there is no flag {name}"
            raise click.UsageError(wrong, ctx)
        return found[0]
