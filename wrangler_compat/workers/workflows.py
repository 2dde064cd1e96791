"""`workers.workflows`: the error that ends a step for good. Workflows themselves are not run here."""


class NonRetryableError(Exception):
    """A step failed and must not be tried again."""


__all__ = ["NonRetryableError"]
