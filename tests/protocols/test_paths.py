"""Dot segments, as the WHATWG URL standard removes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.paths import normalise


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/a/b", "/a/b"),
        ("/", "/"),
        ("", "/"),
        ("a", "/a"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/../../a", "/a"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/a/.", "/a/"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2E/b", "/a/b"),
        ("/a//b", "/a//b"),
        ("/a//../b", "/a/b"),
        ("/a\\..\\b", "/b"),
        ("/a/...", "/a/..."),
        ("/a/.b", "/a/.b"),
        ("/a/%2e%2e%2e", "/a/%2e%2e%2e"),
        ("/a/%2fb", "/a/%2fb"),
        ("/%73lugs", "/%73lugs"),
        ("/internal/state/records/x/../slugs", "/internal/state/records/slugs"),
    ],
)
def test_normal_form(path: str, normal: str) -> None:
    assert normalise(path) == normal


@given(st.lists(st.sampled_from(["a", ".", "..", "%2e", "%2E.", "", "%2e%2e", "b\\..", ".x"]), max_size=8))
def test_is_idempotent_and_rooted(segments: list[str]) -> None:
    normal = normalise("/" + "/".join(segments))
    assert normal.startswith("/")
    assert normalise(normal) == normal
    assert not {segment.lower() for segment in normal.split("/")} & {".", "..", "%2e", "%2e%2e", ".%2e", "%2e."}
