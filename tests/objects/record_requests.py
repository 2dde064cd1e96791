"""Requests of the record routes, in the form in which the stores take them."""

import base64
import hashlib
from typing import Any

from moorage.protocols import records as rules


def digest(text: str) -> str:
    """The record digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def tuple_body(
    delivery: str,
    number: int = 7,
    /,
    *,
    slug: str = "acme-widgets",
    expected: dict[str, str | None] | None = None,
    **contents: str | None,
) -> dict[str, Any]:
    """A tuple request; `expected` holds digests by section, the other sections expect nothing."""
    operations = []
    for section in rules.TUPLE_SECTIONS:
        operation: dict[str, Any] = {
            "path": rules.tuple_path(slug, section, number),
            "expectedDigest": (expected or {}).get(section),
        }
        content = contents.get(section.replace("-", "_"))
        if content is not None:
            operation["contentBase64"] = base64.b64encode(content.encode()).decode()
        operations.append(operation)
    return {"deliveryId": delivery, "key": f"{slug}/{number}", "operations": operations}


def tuple_write(delivery: str, number: int = 7, /, **fields: Any) -> rules.TupleWrite:
    """A parsed tuple."""
    return rules.parse_tuple(tuple_body(delivery, number, **fields))


def commit_lot(contents: list[str], slug: str = "acme-widgets") -> rules.CommitLot:
    """A parsed lot; each content's SHA-1 is its id."""
    records = [
        {"sha": hashlib.sha1(content.encode()).hexdigest(), "content": content, "digest": digest(content)}
        for content in contents
    ]
    return rules.parse_commits({"repo_slug": slug, "records": records})
