"""Refusals of the conditional-read cache (spec state-plane-protocol 7)."""

from .base import WireError


class InvalidGithubEtagCacheKey(WireError):
    """Pool, route or media type cannot be cached, or `cache_key` is not the one they give."""

    code, status = "invalid_github_etag_cache_key", 400


class InvalidGithubEtagConfirmation(WireError):
    """The key, `etag` or `body_digest` of a confirmation is malformed."""

    code, status = "invalid_github_etag_confirmation", 400


class GithubEtagCacheUnavailable(WireError):
    """The cache cannot be reached; the caller fetches from the code host instead."""

    code, status = "github_etag_cache_unavailable", 503
