"""Canonical records: focused reads, lists, journal, tuples, commits (spec state-plane-protocol 3)."""

from collections.abc import Mapping

from moorage.protocols import json_body
from moorage.protocols.records import MAX_REQUEST_BYTES, TUPLE_SECTIONS, is_slug, item_number
from moorage.protocols.records.identity import ITEM_NUMBER
from moorage.protocols.wire import ExactReviewQueueUnavailable, Reply
from moorage.protocols.wire.records import (
    CanonicalCommitRecordsTooLarge,
    CanonicalRecordTupleTooLarge,
    InvalidCanonicalRecordIdentity,
)

from ..answers import style_headers
from ..routing import Answer, Auth, Call, Raw, Result, Route, Style

BASE = "/internal/state/records"
_HEADERS = style_headers(Style.INDENTED)


async def read(call: Call, section: str) -> Result:
    """200 with one record; the slug is taken as it was sent, percent-encoding included."""
    slug, number = call.params["slug"], item_number(call.params["number"])
    if not is_slug(slug) or number is None:
        raise InvalidCanonicalRecordIdentity("a repository slug and a safe integer are needed")
    return _page(await call.queue.read_record_page(slug, section, number))


async def slugs(call: Call) -> Result:
    """200 with every repository; the body is ignored."""
    return Answer.of(await call.queue.list_record_slugs())


async def listing(call: Call) -> Result:
    """200 with a page of live numbers; a body that is no JSON object has no members (`auth/non-json-body`)."""
    return _page(await call.queue.list_records(json_body.members(call.body)))


async def export(call: Call) -> Result:
    """200 with a page of the journal."""
    return _page(await call.queue.export_records(json_body.members(call.body)))


def _page(answer: Reply) -> Result:
    """An answer that the object has encoded; compact, since an indent would cost as much as all the rest of it."""
    return Raw(answer["value"], 200, _HEADERS) if answer["status"] == 200 else Answer.of(answer)


async def tuples(call: Call) -> Result:
    """202 with the item's revision, 409 with what is there."""
    if len(call.body) > MAX_REQUEST_BYTES:
        raise CanonicalRecordTupleTooLarge
    return Answer.of(await call.queue.write_record_tuple(call.body))


async def commits(call: Call) -> Result:
    """202 with the counts."""
    if len(call.body) > MAX_REQUEST_BYTES:
        raise CanonicalCommitRecordsTooLarge(maxBytes=MAX_REQUEST_BYTES)
    return Answer.of(await call.queue.write_commit_records(call.body))


def _section_of(section: str) -> Route:
    def known(params: Mapping[str, str]) -> bool:
        return ITEM_NUMBER.fullmatch(params["number"]) is not None

    async def read_section(call: Call) -> Result:
        return await read(call, section)

    auth = Auth.WEBHOOK_OR_OPERATOR if section == "items" else Auth.WEBHOOK
    path = f"{BASE}/{{slug}}/{section}/{{number}}"
    return Route(("GET",), path, read_section, auth, queue=True, accepts=known, failure=ExactReviewQueueUnavailable)


routes = [
    *(_section_of(section) for section in TUPLE_SECTIONS),
    *(
        Route(("POST",), f"{BASE}/{name}", handler, queue=True, failure=ExactReviewQueueUnavailable)
        for name, handler in (
            ("slugs", slugs),
            ("list", listing),
            ("export", export),
            ("tuples", tuples),
            ("commits", commits),
        )
    ),
]
