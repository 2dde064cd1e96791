"""Reads and validates wrangler configuration, migrations and variables.

`load` finds, reads and checks a file and returns a `WorkerConfig` with every error and warning; `resolve_variables`
gives the variables; `plan` says what a state folder needs for the migrations.
"""

from .diagnostics import ConfigError, Diagnostic, Report
from .discovery import DiscoveryError, find_config
from .load import Loaded, load
from .migrations import MigrationRefused, MigrationStep, live_classes, steps_of
from .model import (
    Assets,
    D1Database,
    DevSettings,
    DurableObjectBinding,
    DurableObjectClass,
    KvNamespace,
    QueueConsumer,
    QueueProducer,
    R2Bucket,
    ServiceBinding,
    UnsupportedBinding,
    WorkerConfig,
)
from .operations import Plan, Record, StoredClass, folder_of
from .plan import plan
from .syntax import SyntaxProblem, parse_config
from .validate import Validated, validate
from .variables import Variable, Variables, VariablesError, resolve_variables

__all__ = [
    "Assets", "ConfigError", "D1Database", "DevSettings", "Diagnostic", "DiscoveryError", "DurableObjectBinding",
    "DurableObjectClass", "KvNamespace", "Loaded", "MigrationRefused", "MigrationStep", "Plan", "QueueConsumer",
    "QueueProducer", "R2Bucket", "Record", "Report", "ServiceBinding", "StoredClass", "SyntaxProblem",
    "UnsupportedBinding", "Validated", "Variable", "Variables", "VariablesError", "WorkerConfig", "find_config",
    "folder_of", "live_classes", "load", "parse_config", "plan", "resolve_variables", "steps_of", "validate",
]  # fmt: skip
