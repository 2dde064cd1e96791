"""The S3 side of a bucket under test: what other programs reach it by. It needs buckets on moto."""

from dataclasses import dataclass, field
from typing import Any, Final

from .host import Host

_NO_ENDPOINT: Final = (
    'the bucket {binding} is kept in {kind}, which has no S3 endpoint: run the test with r2="moto" '
    '(@pytest.mark.moorage(r2="moto")), which keeps buckets in an S3 server of this process'
)


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """Where a bucket is reached by S3: `url`, the `bucket`'s name there, credentials and region."""

    url: str
    bucket: str
    access_key: str = "moto"
    secret_key: str = field(default="moto", repr=False)
    region: str = "us-east-1"

    def client(self) -> Any:
        """Returns a boto3 client of the endpoint; close it. Its calls block, but the server is another thread."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            config=Config(proxies={}, s3={"addressing_style": "path"}),
        )


def s3_endpoint(host: Host, binding: str) -> S3Endpoint:
    """The endpoint of the bucket that `binding` names in the first Worker.

    Raises LookupError when there is no such bucket, RuntimeError when its store has no endpoint.
    """
    buckets = {bucket.binding: bucket.storage_name for worker in host.workers for bucket in worker.config.r2_buckets}
    if binding not in buckets:
        raise LookupError(f"no R2 bucket is bound as {binding!r}; there are: {', '.join(buckets) or 'none'}")
    if host.settings.r2 != "moto":
        raise RuntimeError(_NO_ENDPOINT.format(binding=binding, kind=host.settings.r2))
    from moorage.r2.backends.moto import MotoBackend

    backend = host.buckets.opened[buckets[binding]].backend
    if not isinstance(backend, MotoBackend):
        raise RuntimeError(_NO_ENDPOINT.format(binding=binding, kind=type(backend).__name__))
    url, name = backend.address
    return S3Endpoint(url, name)
