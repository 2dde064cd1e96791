"""Object storage with the platform's bucket API over several backends."""

if not __name__.startswith("moorage."):
    raise ImportError(f"import moorage.{__name__}, not {__name__}: the folder is mapped into the namespace")

from .bucket import Bucket, R2MultipartUpload
from .errors import R2Error, RangeError, StoreRefused
from .objects import R2Object, R2ObjectBody, R2Objects
from .opening import KINDS, open_backend, open_bucket
from .values import Types

__all__ = [
    "KINDS",
    "Bucket",
    "R2Error",
    "R2MultipartUpload",
    "R2Object",
    "R2ObjectBody",
    "R2Objects",
    "RangeError",
    "StoreRefused",
    "Types",
    "open_backend",
    "open_bucket",
]
