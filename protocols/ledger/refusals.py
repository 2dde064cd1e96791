"""What every rule of the ledger raises when it says no (spec action-ledger 18)."""


class LedgerError(Exception):
    """Base of everything the ledger raises on purpose."""


class LedgerRefusal(LedgerError, ValueError):
    """A value, file or call that the ledger's rules refuse.

    `code` is the refusal class of spec action-ledger 18, `where` the field, path or line it was met at (empty when
    the caller knows), `detail` what would have been right.
    """

    def __init__(self, code: str, detail: str, where: str = "") -> None:
        super().__init__(f"{where}: {detail} ({code})" if where else f"{detail} ({code})")
        self.code = code
        self.detail = detail
        self.where = where

    def at(self, where: str) -> "LedgerRefusal":
        """The same refusal, with `where` put before the place it already names."""
        inner = f"{where}: {self.where}" if self.where else where
        return type(self)(self.code, self.detail, inner)


class LedgerConflict(LedgerRefusal):
    """A durable name that already holds different content. Trying again cannot help; the stored bytes stay."""
