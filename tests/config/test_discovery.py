"""Which file is read."""

import json
from pathlib import Path

import pytest

from moorage.wrangler_compat.config import DiscoveryError, find_config, load


def test_a_name_is_searched_up_to_the_root_before_the_next(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "wrangler.toml").touch()
    assert find_config(inner).path == inner / "wrangler.toml"  # type: ignore[union-attr]
    (tmp_path / "wrangler.jsonc").touch()
    assert find_config(inner).path == tmp_path / "wrangler.jsonc"  # type: ignore[union-attr]
    (inner / "wrangler.json").touch()
    assert find_config(inner).path == inner / "wrangler.json"  # type: ignore[union-attr]


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert find_config(tmp_path) is None
    loaded = load(tmp_path, environ={})
    assert loaded.report.all_errors == []
    config = loaded.require()
    assert (config.name, config.named, config.main, config.path) == ("worker", False, None, None)


def test_a_named_file_ends_the_search(tmp_path: Path) -> None:
    (tmp_path / "wrangler.json").write_text('{"name": "here"}')
    other = tmp_path / "other.toml"
    other.write_text('name = "other"')
    assert load(tmp_path, config=other, environ={}).require().name == "other"
    loaded = load(tmp_path, config=tmp_path / "none.toml", environ={})
    assert [error.code for error in loaded.report.all_errors] == ["no-such-file"]


def test_a_redirect_is_followed_where_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text('name = "written"\n[env.x]\n')
    deploy = tmp_path / ".wrangler" / "deploy"
    deploy.mkdir(parents=True)
    built = tmp_path / "dist" / "wrangler.json"
    built.parent.mkdir()
    built.write_text('{"name": "built"}')
    (deploy / "config.json").write_text('{"configPath": "../../dist/wrangler.json", /* made by a tool */}')
    assert load(tmp_path, environ={}).require().name == "written"
    redirected = load(tmp_path, environ={}, environment="x", follow_redirect=True).require()
    assert (redirected.name, redirected.folder) == ("built", built.parent)
    assert redirected.user_folder == tmp_path  # where .dev.vars is read
    found = find_config(tmp_path, follow_redirect=True)
    assert found is not None
    assert found.redirected


@pytest.mark.parametrize("content", ["{", "{}", "[]", '{"configPath": ""}', '{"configPath": "none.json"}'])
def test_a_broken_redirect_is_an_error(tmp_path: Path, content: str) -> None:
    deploy = tmp_path / ".wrangler" / "deploy"
    deploy.mkdir(parents=True)
    (deploy / "config.json").write_text(content)
    with pytest.raises(DiscoveryError, match=r"config\.json"):
        find_config(tmp_path, follow_redirect=True)


def test_a_redirect_of_another_folder_is_an_error(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "wrangler.toml").touch()
    (tmp_path / ".wrangler" / "deploy").mkdir(parents=True)
    (tmp_path / ".wrangler" / "deploy" / "config.json").write_text(json.dumps({"configPath": "built.json"}))
    (tmp_path / ".wrangler" / "deploy" / "built.json").write_text("{}")
    with pytest.raises(DiscoveryError, match="another folder"):
        find_config(inner, follow_redirect=True)


def test_the_environment_comes_from_the_option_or_the_variable(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text('name = "w"\n[env.a]\n[env.b]\n')
    assert load(tmp_path, environ={"CLOUDFLARE_ENV": "a"}).require().name == "w-a"
    assert load(tmp_path, environ={"CLOUDFLARE_ENV": "a"}, environment="b").require().name == "w-b"
    assert load(tmp_path, environ={"CLOUDFLARE_ENV": ""}).require().environment is None
