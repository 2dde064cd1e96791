"""Refusals of the job routes: one class for each code of `moorage.protocols.jobs.errors`, with the same status."""

from typing import ClassVar

from ..jobs.errors import Refused
from .base import WireError


class JobRefusal(WireError):
    """A refusal of the queue; `message` says it to a person, the other members depend on the code."""

    code, status = "job_refused", 400
    refusal: ClassVar[str] = ""


class JobUsage(JobRefusal):
    """The body, or a flag of it, is not what the verb takes."""

    code, status = "job_usage", 400
    refusal = "usage"


class JobInvalidTtl(JobRefusal):
    """The time-to-live, given or configured, is no usable number of seconds."""

    code, status = "job_invalid_ttl", 400
    refusal = "invalid-ttl"


class JobInvalidPriority(JobRefusal):
    """The priority, given or configured, is no integer."""

    code, status = "job_invalid_priority", 400
    refusal = "invalid-priority"


class JobInvalidSetting(JobRefusal):
    """A setting of the queue is not usable."""

    code, status = "job_invalid_setting", 400
    refusal = "invalid-setting"


class JobDeterministic(JobRefusal):
    """The extension is deterministic and never enters the queue."""

    code, status = "job_deterministic", 400
    refusal = "deterministic"


class JobAmbiguous(JobRefusal):
    """The id names an action and an analyzer."""

    code, status = "job_ambiguous", 400
    refusal = "ambiguous"


class JobExtensionInvalid(JobRefusal):
    """The extension's manifest, prompt or report schema is not usable."""

    code, status = "job_extension_invalid", 400
    refusal = "extension-invalid"


class JobTemplateInvalid(JobRefusal):
    """The prompt template lacks its placeholder, or brings its own delimiter."""

    code, status = "job_template_invalid", 400
    refusal = "template-invalid"


class JobNoAgent(JobRefusal):
    """No processing agent is installed."""

    code, status = "job_no_agent", 409
    refusal = "no-agent"


class JobVirtualTarget(JobRefusal):
    """The target has no content to work on."""

    code, status = "job_virtual_target", 400
    refusal = "virtual-target"


class JobNoFindings(JobRefusal):
    """There is nothing open for the fixer to resolve."""

    code, status = "job_no_findings", 409
    refusal = "no-findings"


class JobDrift(JobRefusal):
    """The target changed since it was last looked at."""

    code, status = "job_drift", 409
    refusal = "drift"


class JobUnreadable(JobRefusal):
    """The target's content cannot be read."""

    code, status = "job_unreadable", 409
    refusal = "unreadable"


class JobAlreadyTerminal(JobRefusal):
    """The job is completed, failed or cancelled already."""

    code, status = "job_already_terminal", 409
    refusal = "already-terminal"


class JobNotRunning(JobRefusal):
    """The job is not running, so nothing can be recorded for it."""

    code, status = "job_not_running", 409
    refusal = "not-running"


class JobReportUnreadable(JobRefusal):
    """The report could not be read; the job stays running."""

    code, status = "job_report_unreadable", 400
    refusal = "report-unreadable"


class JobReportInvalid(JobRefusal):
    """The report breaks its schema; the job is failed."""

    code, status = "job_report_invalid", 422
    refusal = "report-invalid"


class JobContentMissing(JobRefusal):
    """The claimed job had no content row; it is failed."""

    code, status = "job_job_file_missing", 409
    refusal = "job-file-missing"


class JobAlreadyResolved(JobRefusal):
    """The finding is in that state already."""

    code, status = "job_already_resolved", 409
    refusal = "already-resolved"


class JobNotDismissible(JobRefusal):
    """A row of the safety lane cannot be dismissed."""

    code, status = "job_not_dismissible", 400
    refusal = "not-dismissible"


class JobDuplicate(JobRefusal):
    """An identical job is queued or running."""

    code, status = "job_duplicate", 409
    refusal = "duplicate"


class JobRunningConflict(JobRefusal):
    """A running fixer holds the target."""

    code, status = "job_running_conflict", 409
    refusal = "running-conflict"


class JobNonceMismatch(JobRefusal):
    """The nonce is not the job's."""

    code, status = "job_nonce_mismatch", 403
    refusal = "nonce-mismatch"


class JobNotFound(JobRefusal):
    """There is no such job, extension, target or finding."""

    code, status = "job_not_found", 404
    refusal = "not-found"


class JobNoDatabase(JobRefusal):
    """There is no queue."""

    code, status = "job_no_database", 404
    refusal = "no-database"


_BY_REFUSAL: dict[str, type[JobRefusal]] = {kind.refusal: kind for kind in JobRefusal.__subclasses__()}


def wire_refusal(error: Refused) -> JobRefusal:
    """The wire error of a refusal, with its message and detail."""
    return _BY_REFUSAL[error.code](message=error.message, **error.detail)


class JobQueueNotConfigured(WireError):
    """The binding JOB_QUEUE is missing."""

    code, status = "job_queue_not_configured", 503
