"""The two hashes of a job (spec job-lifecycle 8). The formulas are frozen: a change breaks duplicate detection."""

from __future__ import annotations

import hashlib

NODELESS_HASH = "nodeless"
"""Body and frontmatter hash of a job without a target."""


def text_hash(text: str) -> str:
    """Lower-case hex SHA-256 of the UTF-8 text."""
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash(
    extension_id: str,
    extension_version: str,
    path: str,
    body_hash: str,
    frontmatter_hash: str,
    prompt_template_hash: str,
) -> str:
    """The key of a job's content: SHA-256 over the six texts joined with NUL."""
    parts = (extension_id, extension_version, path, body_hash, frontmatter_hash, prompt_template_hash)
    return text_hash("\0".join(parts))


def prompt_template_hash(
    preamble: str,
    template: str,
    *,
    report_contract: str = "",
    skill_section: str = "",
    findings_section: str = "",
    current_tags_section: str = "",
) -> str:
    """SHA-256 of everything of a prompt but the target's body, joined with nothing between.

    An absent section is the empty text, so an optional section never moves the hash of jobs without it.
    """
    return text_hash(preamble + template + skill_section + findings_section + current_tags_section + report_contract)
