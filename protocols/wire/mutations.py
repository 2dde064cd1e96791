"""Refusals of the receipts of writes to the code host."""

from .base import WireError


class InvalidPartitionDate(WireError):
    """`before` must be a day, `YYYY-MM-DD`."""

    code, status = "invalid_partition_date", 400
