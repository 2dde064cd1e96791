"""Options of the whole suite: `--acceptance` runs the long proofs at full size."""

import hypothesis
import pytest

# how long an example takes is the machine's affair
hypothesis.settings.register_profile("moorage", deadline=None)
hypothesis.settings.load_profile("moorage")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--acceptance", action="store_true", help="run the long proofs at full size")
    parser.addoption("--kills", type=int, default=None, help="how often the server is killed under load")


@pytest.fixture(scope="session")
def full_size(pytestconfig: pytest.Config) -> bool:
    """Whether proofs run at full size (`make acceptance`) or small (`make test`)."""
    return bool(pytestconfig.getoption("--acceptance"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--acceptance"):
        return
    skip = pytest.mark.skip(reason="a long proof: make acceptance")
    for item in items:
        if item.get_closest_marker("acceptance"):
            item.add_marker(skip)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A name with a memory address differs from process to process, and xdist refuses the run: say it here."""
    if " at 0x" in item.name:
        raise pytest.UsageError(f"{item.nodeid}: the name of a test may not hold a memory address")
