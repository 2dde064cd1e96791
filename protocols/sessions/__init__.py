"""Rules of session manifests: the stages of a session, what may be reused, and what was published.

`pipeline` is the one table of stages. `documents` reads and checks a manifest, `states` and `lifecycle` move it,
`decisions` decides before a stage, `artifacts` has the artifact stage's collection, `commits` the remote documents,
`shared` what the state plane's form takes. Everything is a frozen value; nothing here has a clock or does I/O.
Sources: the session manifest document ("seed") and spec session-manifest, which marks its inferences.
"""

from .documents import SessionManifest, encode, parse
from .errors import (
    CollectionRefused,
    IdentityDisagrees,
    IdentityRefused,
    PrefixRefused,
    ReadRefused,
    ResultRefused,
    SessionError,
    TransitionRefused,
    UnsupportedState,
)
from .lifecycle import Projection, Result, Skip
from .pipeline import NARRATIO, Pipeline, StageSpec
from .states import Event, Status

__all__ = [
    "NARRATIO",
    "CollectionRefused",
    "Event",
    "IdentityDisagrees",
    "IdentityRefused",
    "Pipeline",
    "PrefixRefused",
    "Projection",
    "ReadRefused",
    "Result",
    "ResultRefused",
    "SessionError",
    "SessionManifest",
    "Skip",
    "StageSpec",
    "Status",
    "TransitionRefused",
    "UnsupportedState",
    "encode",
    "parse",
]
