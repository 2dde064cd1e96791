"""Names of parametrized tests that are the same in every process."""

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def stable(value: object) -> str:
    """`repr` without memory addresses: xdist needs the same names everywhere."""
    return _ADDRESS.sub("", repr(value))
