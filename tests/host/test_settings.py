"""The table of settings, the class and the documentation say the same."""

from pathlib import Path
from typing import Any

import click
import pytest

from moorage.wrangler_compat.host.settings import SETTINGS, HostSettings, documented

DOCUMENT = Path(__file__).parents[2] / "docs" / "host.md"


def test_table_and_class_agree() -> None:
    assert documented() == set()
    settings = HostSettings()
    assert {row.name: row.default for row in SETTINGS} == {row.name: getattr(settings, row.name) for row in SETTINGS}


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_the_documentation_has_the_row(row: object) -> None:
    name, default, unit, text = (getattr(row, part) for part in ("name", "default", "unit", "help"))
    assert f"| `{name}` | `{default}` | {unit} | {text} |" in DOCUMENT.read_text()


def test_test_hooks_are_refused_beyond_loopback() -> None:
    with pytest.raises(ValueError, match="only on loopback"):
        HostSettings(test_hooks=True, host="0.0.0.0")


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_every_setting_is_an_option(row: object, tmp_path: Path) -> None:
    from moorage.wrangler_compat.host.commands import _settings, serve

    name, default = getattr(row, "name"), getattr(row, "default")  # noqa: B009 - rows are typed as objects here
    option = {"durable": "--no-durable"}.get(name, f"--{name.replace('_', '-')}")
    chosen: list[str]
    wanted: object
    if isinstance(default, bool):
        wanted = not default
        chosen = [option if wanted or name == "durable" else option.replace("--", "--no-", 1)]
    else:
        wanted = {"state": tmp_path, "r2": "memory"}.get(
            name, default + 1 if isinstance(default, int | float) else "::1"
        )
        chosen = [option, str(wanted)]
    context = serve.make_context("serve", chosen)
    assert getattr(_settings(context.params, "serve", tmp_path, None), name) == wanted


@pytest.mark.parametrize(
    ("section", "mode", "arguments", "listens"),
    [
        ("", "dev", [], ("127.0.0.1", 8787)),
        ('[dev]\nip = "localhost"\nport = 9000', "dev", [], ("127.0.0.1", 9000)),
        ('[dev]\nip = "*"', "dev", [], ("0.0.0.0", 8787)),
        ('[dev]\nip = "::1"\nport = 0', "dev", [], ("::1", 0)),
        ('[dev]\nip = "::1"\nport = 9000', "dev", ["--port", "1", "--host", "h"], ("h", 1)),
        ('[dev]\nip = "::1"\nport = 9000', "serve", [], ("127.0.0.1", 8787)),
        ("[dev]\nip = 1\nport = 9000", "dev", [], ("127.0.0.1", 8787)),
    ],
)
def test_dev_takes_address_and_port_of_the_configuration(
    tmp_path: Path, section: str, mode: str, arguments: list[str], listens: tuple[str, int]
) -> None:
    from moorage.wrangler_compat.host.commands import _settings, dev

    (tmp_path / "wrangler.toml").write_text(f'name = "w"\n{section}\n')
    context = dev.make_context("dev", [str(tmp_path), *arguments])
    settings = _settings(context.params, mode, tmp_path, tmp_path)
    assert (settings.host, settings.port) == listens


def test_a_port_of_the_configuration_that_cannot_be(tmp_path: Path) -> None:
    from moorage.wrangler_compat.host.commands import _settings, dev

    (tmp_path / "wrangler.toml").write_text("[dev]\nport = 99999\n")
    context = dev.make_context("dev", [str(tmp_path)])
    with pytest.raises(click.ClickException, match=r"dev\.port is 99999, but must be from 0 to 65535"):
        _settings(context.params, "dev", tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("idle_seconds", -1.0), ("idle_seconds", float("inf")), ("drain_seconds", float("nan")), ("sync_threads", 0),
        ("max_head", 0), ("admin_port", -2), ("max_body", -1),
    ],
)  # fmt: skip
def test_numbers_have_a_range(name: str, value: float) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=rf"^{name} is .* but must be a number of .*, -?\d or more$"):
        HostSettings(**settings)
