"""The asynchronous fixture of the pytest plugin; loaded only beside pytest-asyncio."""

from collections.abc import AsyncIterator, Mapping
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from .pytest_plugin import both_at_once, options_of


def fixtures(loop_scope: Any) -> ModuleType:
    """Returns a plugin that holds the fixture `moorage_runtime`, which runs on the event loop of that scope."""

    @pytest_asyncio.fixture(loop_scope=loop_scope)
    async def moorage_runtime(
        request: pytest.FixtureRequest, moorage_options: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        """The Worker in the test's own event loop, under a clock set by hand, with empty storage."""
        both_at_once(request)
        options = options_of(request, moorage_options)
        from .testing import WorkerRuntime

        async with WorkerRuntime(options) as runtime:
            yield runtime

    plugin = ModuleType("moorage_runtime_fixture")
    plugin.moorage_runtime = moorage_runtime  # type: ignore[attr-defined]
    return plugin
