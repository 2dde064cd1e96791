"""The limit on open files: every connection takes one, every object in memory up to four."""

import contextlib
import logging

MOST = 1_048_576

_log = logging.getLogger("moorage.host")


def raise_limit() -> int:
    """Raises the process's soft limit as far as its hard limit allows; returns what holds, 0 where none is known."""
    try:
        import resource
    except ImportError:  # not on this platform
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            _log.debug("limit of open files raised from %d to %d", soft, wanted)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
