"""How much one spool may hold (spec action-ledger 16)."""

from typing import Final

MAX_REPOSITORIES: Final = 256
MAX_ENTRIES: Final = 4096
MAX_PRODUCERS: Final = 256
MAX_EVENTS: Final = 65_536
MAX_TOTAL_BYTES: Final = 67_108_864
