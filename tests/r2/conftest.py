"""One simulated S3 server for all tests here, so that it is not started for each."""

from collections.abc import Iterator

import pytest

from moorage.r2.backends.moto import acquire_server, release_server


@pytest.fixture(scope="session", autouse=True)
def simulated_store() -> Iterator[str]:
    yield acquire_server().url
    release_server()
