"""Rules of the sweep state: the file's YAML subset, the lease, items, cursors, and what each subcommand does.

Source: the sweep state schema, version 1, and spec sweep-state. `operations` has one function for each subcommand;
each takes a loaded `State` and returns an `Outcome`, which says what to print and what to write. Where the schema is
silent the recorded sequences decide; the places are named where they are decided.
"""

from .document import EVIDENCE, KNOWN_STATUSES, SCHEMA_VERSION, Outcome, Standing, State, Word, item_key, load
from .reading import SubsetError, parse
from .writing import emit

__all__ = [
    "EVIDENCE",
    "KNOWN_STATUSES",
    "SCHEMA_VERSION",
    "Outcome",
    "Standing",
    "State",
    "SubsetError",
    "Word",
    "emit",
    "item_key",
    "load",
    "parse",
]
