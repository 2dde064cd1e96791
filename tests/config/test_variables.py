"""Where variables come from, and which source wins."""

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.wrangler_compat.config import Variables, VariablesError, load, resolve_variables
from moorage.wrangler_compat.config.variables import Mode


def resolve(folder: Path, raw: dict[str, Any], environ: dict[str, str] | None = None, **options: Any) -> Variables:
    (folder / "wrangler.json").write_text(json.dumps({"name": "w", **raw}))
    config = load(folder, environ={}).require()
    return resolve_variables(config, environ or {}, **options)


def values(variables: Variables) -> dict[str, Any]:
    return {name: variable.value for name, variable in variables.values.items()}


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f".{name.replace('_', '.')}").write_text(text)


@pytest.mark.parametrize("mode", ["dev", "serve"])
def test_the_process_is_not_read_for_undeclared_names(tmp_path: Path, mode: Mode) -> None:
    assert values(resolve(tmp_path, {}, {"PATH": "/bin"}, mode=mode)) == {}


def test_serve_takes_declared_names_from_the_process_and_they_win(tmp_path: Path) -> None:
    write(tmp_path, dev_vars="FILE=file\nBOTH=file\n")
    environ = {"A": "process", "FILE": "process", "OTHER": "process"}
    raw = {"vars": {"A": "config", "B": "config"}}
    assert values(resolve(tmp_path, raw, environ, mode="serve")) == {
        "A": "process", "B": "config", "FILE": "process", "BOTH": "file",
    }  # fmt: skip
    assert values(resolve(tmp_path, raw, environ, mode="dev"))["A"] == "config"


def test_serve_takes_required_secrets_from_the_process(tmp_path: Path) -> None:
    write(tmp_path, dev_vars="KEY=file\nEXTRA=file\n")
    variables = resolve(
        tmp_path, {"secrets": {"required": ["KEY", "OTHER", "NONE"]}}, {"OTHER": "p", "EXTRA": "p"}, mode="serve"
    )
    assert values(variables) == {"KEY": "file", "OTHER": "p"}
    assert variables.missing_secrets == ("NONE",)


def test_required_secrets_let_dev_read_the_process_where_there_is_no_dev_vars(tmp_path: Path) -> None:
    raw = {"secrets": {"required": ["KEY"]}}
    assert values(resolve(tmp_path, raw, {"KEY": "p", "OTHER": "p"})) == {"KEY": "p"}
    write(tmp_path, dev_vars="X=1")
    assert resolve(tmp_path, raw, {"KEY": "p"}).missing_secrets == ("KEY",)


def test_dot_env_can_be_switched_off(tmp_path: Path) -> None:
    write(tmp_path, env="A=1")
    assert values(resolve(tmp_path, {})) == {"A": "1"}
    assert values(resolve(tmp_path, {}, {"CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV": "false"})) == {}


def test_the_process_can_be_included_and_then_wins(tmp_path: Path) -> None:
    write(tmp_path, env="A=file\nB=$A-$C\n")
    environ = {"A": "process", "C": "c", "CLOUDFLARE_INCLUDE_PROCESS_ENV": "true"}
    found = values(resolve(tmp_path, {}, environ))
    assert (found["A"], found["B"], found["C"]) == ("process", "process-c", "c")


def test_named_files_skip_dev_vars(tmp_path: Path) -> None:
    write(tmp_path, dev_vars="A=dev", env="B=env")
    (tmp_path / "one").write_text("A=1\nC=1")
    (tmp_path / "two").write_text("C=2")
    variables = resolve(tmp_path, {}, env_files=[Path("one"), Path("two")])
    assert values(variables) == {"A": "1", "C": "2"}
    assert [path.name for path in variables.files] == ["one", "two"]
    with pytest.raises(VariablesError, match="three"):
        resolve(tmp_path, {}, env_files=[Path("three")])


def test_the_command_line_wins_over_everything(tmp_path: Path) -> None:
    write(tmp_path, dev_vars="A=file")
    assert values(resolve(tmp_path, {}, {"A": "p"}, mode="serve", overrides={"A": "option"})) == {"A": "option"}


def test_secrets_are_in_no_listing(tmp_path: Path) -> None:
    write(tmp_path, dev_vars="KEY=hush")
    variables = resolve(tmp_path, {"vars": {"A": "open"}})
    assert "hush" not in repr(variables)
    assert variables.values["KEY"].shown() == "(hidden)"
    assert variables.values["A"].shown() == "'open'"
    assert variables.values["KEY"].source == ".dev.vars"


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".dev.vars").write_bytes(b"A=\xff")
    with pytest.raises(VariablesError, match="byte 2"):
        resolve(tmp_path, {})
