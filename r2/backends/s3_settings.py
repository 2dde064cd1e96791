"""Where an S3 store is and how its client behaves."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ..errors import StoreRefused

MEBIBYTE: Final = 1024**2


@dataclass(frozen=True, slots=True)
class S3Settings:
    """One store. Secrets never appear in `repr`. Times are seconds, sizes bytes."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    endpoint_url: str | None = None
    session_token: str | None = field(default=None, repr=False)
    region: str = "auto"
    connect_timeout: float = 5.0
    read_timeout: float = 60.0
    attempts: int = 4
    """Of one request, the first included; waits between them grow and are jittered (botocore's standard mode)."""
    single_put: int = 12 * MEBIBYTE
    """Values up to this size are held in memory and sent in one request."""
    part_size: int = 6 * MEBIBYTE
    """Of larger values, each part but the last, at least 5 MiB. About six of these are in memory at once."""
    threads: int = 16

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "S3Settings":
        """Settings from `R2_*`, or from `AWS_*` where those are absent. StoreRefused names what is missing."""

        def read(*names: str) -> str | None:
            return next((value for name in names if (value := environment.get(name, "").strip())), None)

        key_id = read("R2_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID")
        secret = read("R2_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY")
        endpoint = read("R2_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        region = read("R2_REGION", "AWS_REGION", "AWS_DEFAULT_REGION")
        missing = [
            name
            for name, value in (
                ("R2_ACCESS_KEY_ID", key_id),
                ("R2_SECRET_ACCESS_KEY", secret),
                # Amazon's own endpoint follows from a region
                ("R2_ENDPOINT_URL", endpoint or region),
            )
            if value is None
        ]
        if key_id is None or secret is None or missing:
            raise StoreRefused(
                f"the s3 backend needs {', '.join(missing)}: the endpoint of R2 is "
                "https://<account id>.r2.cloudflarestorage.com, and the two keys come from an R2 API "
                "token (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
                "AWS_ENDPOINT_URL are read where the R2_ names are absent)"
            )
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise StoreRefused(f"R2_ENDPOINT_URL must begin with https:// or http://, and is {endpoint!r}")
        token = None if environment.get("R2_ACCESS_KEY_ID") else read("AWS_SESSION_TOKEN")
        return cls(key_id, secret, endpoint, token, region or "auto")

    def client(self, *, proxies: bool = True) -> Any:
        """A botocore S3 client; safe to use from several threads. Takes a tenth of a second to build."""
        from botocore.config import Config

        config = Config(
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
            retries={"mode": "standard", "total_max_attempts": self.attempts},
            max_pool_connections=self.threads,
            signature_version="s3v4",
            s3={"addressing_style": "auto" if self.endpoint_url is None else "path"},
            # the default checksums of boto3 1.36 and later are refused by R2 and older stores
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            # an empty mapping, unlike None, keeps the environment's proxies out
            proxies=None if proxies else {},
        )
        with _session_lock:
            return _session().client(
                "s3",
                endpoint_url=self.endpoint_url,
                config=config,
                aws_access_key_id=self.access_key_id,
                aws_secret_access_key=self.secret_access_key,
                aws_session_token=self.session_token,
                region_name=self.region,
            )


_session_lock = threading.Lock()
"""Sessions may not build clients in two threads at once."""


@cache
def _session() -> Any:
    """One for the process: it has read the description of S3, which is most of the work of building a client."""
    import boto3

    return boto3.session.Session()
