"""Secrets that do not show, and texts from which they are cut out."""

import base64
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

HIDDEN = "<hidden>"
SECRET_VARIABLES = ("CLAWSWEEPER_RECORDS_SECRET", "CLAWSWEEPER_WEBHOOK_SECRET")
OPERATOR_VARIABLES = ("EXACT_REVIEW_OPERATOR_SECRET",)
"""Where commands find the secrets: in the environment alone."""


class Secret:
    """A shared secret. `reveal()` gives its bytes; nothing else shows it, `repr`, `str` and pickling included.

    White space around it is dropped, as the service does. Raises ValueError when nothing is left, or no text.
    """

    __slots__ = ("_value",)

    def __init__(self, text: str) -> None:
        trimmed = text.strip()
        if not trimmed:
            raise ValueError("the secret is empty")
        # asked first: the codec's own error would carry the secret along
        if any("\ud800" <= character <= "\udfff" for character in trimmed):
            raise ValueError("the secret is not UTF-8")
        self._value = trimmed.encode()

    def reveal(self) -> bytes:
        """The secret's bytes."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def forms(secret: Secret) -> Iterable[str]:
    """The secret as it may turn up in a text: as it is, quoted for an address, in base64."""
    text = secret.reveal().decode()
    yield text
    yield quote(text, safe="")
    yield quote_plus(text)
    yield base64.b64encode(secret.reveal()).decode()


def redact(text: str, secret: Secret | None) -> str:
    """`text` without the secret, in whatever form it is in."""
    if secret is None:
        return text
    for form in sorted(set(forms(secret)), key=len, reverse=True):
        text = text.replace(form, HIDDEN)
    return text
