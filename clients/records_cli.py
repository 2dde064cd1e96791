"""Read, write, list and audit canonical records of the state plane."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .connection import connection_options, show

if TYPE_CHECKING:
    from .http import Http
    from .records import JournalRow, Record

SECTIONS = ("items", "closed", "plans", "decision-packets")
NUMBER = click.IntRange(1, 2**53 - 1)
File = click.Path(exists=True, dir_okay=False, path_type=Path)


class Slug(click.ParamType):  # type: ignore[type-arg]
    """`owner/name`, or the slug itself."""

    name = "owner/name or slug"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from moorage.protocols.records import is_slug, repository_slug

        try:
            slug = repository_slug(value) if "/" in value else value
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not is_slug(slug):
            self.fail(f"{value!r} is neither owner/name nor a repository slug", param, ctx)
        return str(slug)


SLUG = Slug()


@click.group("records")
def command() -> None:
    """Read, write, list and audit canonical records."""


def _described(record: "Record", *, content: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "path": record.id.path,
        "digest": record.digest,
        "revision": record.revision,
        "updatedAt": record.updated_at,
        "deleted": record.deleted,
    }
    if content:
        found["content"] = None if record.content is None else record.content.decode()
    return found


@command.command("slugs")
@connection_options
def slugs(as_json: bool, http_of: "Callable[..., Http]") -> None:
    """List the repositories, each with its newest store revision."""
    from .records import Records

    with http_of() as http:
        found = Records(http).repositories()
    show(found, as_json, "\n".join(f"{revision:>12}  {slug}" for slug, revision in found.items()))


@command.command("get")
@click.argument("slug", type=SLUG)
@click.argument("section", type=click.Choice(SECTIONS))
@click.argument("number", type=NUMBER)
@connection_options
def get(slug: str, section: str, number: int, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Print one record of an item, byte for byte; with --json its digest and revision too. Status 1 without one."""
    from moorage.protocols.records import RecordId

    from .errors import NotFound
    from .records import Records

    record_id = RecordId(slug, section, str(number))
    with http_of() as http:
        record = Records(http).read(record_id)
    if record is None:
        raise NotFound(404, "record_not_found", {}, what=record_id.path)
    if as_json:
        show(_described(record, content=True), True, "")
    elif record.content is not None:
        sys.stdout.buffer.write(record.content)
        sys.stdout.buffer.flush()
    if record.content is None:
        if not as_json:
            click.echo(f"{record_id.path} was deleted at revision {record.revision}", err=True)
        raise SystemExit(1)


@command.command("put")
@click.argument("slug", type=SLUG)
@click.argument("number", type=NUMBER)
@click.option("--report", type=File, help="The report; without one the whole item is deleted (say --delete).")
@click.option("--closed", is_flag=True, help="The report is of a closed item.")
@click.option("--plan", type=File, help="The plan of an open item.")
@click.option("--packet", type=File, help="The decision packet; the report's header is made to name it.")
@click.option("--delete", is_flag=True, help="Leave tombstones in all four sections.")
@click.option("--expected-revision", type=click.IntRange(0), help="Write only if the item is at this revision.")
@click.option("--delivery-id", help="Makes the write repeatable: the same id and contents are accepted once.")
@connection_options
def put(
    slug: str,
    number: int,
    report: Path | None,
    closed: bool,
    plan: Path | None,
    packet: Path | None,
    delete: bool,
    expected_revision: int | None,
    delivery_id: str | None,
    as_json: bool,
    http_of: "Callable[..., Http]",
) -> None:
    """Write the record tuple of an item: report, plan and decision packet together.

    What is not given becomes a tombstone. A packet is refused when the report's header is ambiguous as a whole; the
    item is then written without one, and a stale packet is removed.
    """
    from .records import Records

    if (report is None) is not delete or (delete and (closed or plan or packet)):
        raise click.UsageError("give --report FILE, or --delete alone")
    contents: dict[str, bytes | None] = dict.fromkeys(SECTIONS)
    refused: str | None = None
    if report is not None:
        refused = _fill(contents, slug, number, report, closed, plan, packet)
    if refused is not None:
        click.echo(f"WARNING: no decision packet is written: {refused}", err=True)
    with http_of() as http:
        done = Records(http).put(slug, number, contents, expected_revision=expected_revision, delivery_id=delivery_id)
    value = {
        "ok": True,
        "key": f"{slug}/{number}",
        "revision": done.revision,
        "replayed": done.replayed,
        "packetRefused": refused,
    }
    how = "had been written" if done.replayed else "is"
    show(value, as_json, f"{slug}/{number} {how} at revision {done.revision}")


def _fill(
    contents: dict[str, bytes | None],
    slug: str,
    number: int,
    report: Path,
    closed: bool,
    plan: Path | None,
    packet: Path | None,
) -> str | None:
    """Fills in what the files hold; returns why the packet was refused, or None."""
    from moorage.protocols.decision_packets import plan_packet
    from moorage.protocols.records import RecordId

    section = "closed" if closed else "items"
    try:
        text = report.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{report} is not UTF-8: {error}") from None
    planned = plan_packet(RecordId(slug, section, str(number)), text, packet.read_bytes() if packet else None)
    contents[section] = planned.report.encode()
    contents["plans"] = plan.read_bytes() if plan else None
    contents["decision-packets"] = planned.packet
    return None if planned.refusal is None else planned.refusal.value


@command.command("commit")
@click.argument("slug", type=SLUG)
@click.argument("files", type=File, nargs=-1, required=True)
@connection_options
def commit(slug: str, files: tuple[Path, ...], as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Write commit records: FILES are named <40 hex>.md. They are immutable; the same again is no change."""
    from moorage.protocols.records import is_record_id

    from .records import Records

    contents: dict[str, bytes] = {}
    for file in files:
        if file.suffix != ".md" or not is_record_id("commits", file.stem):
            raise click.BadParameter(f"{file}: the name of a commit record is <40 lowercase hex digits>.md")
        contents[file.stem] = file.read_bytes()
    with http_of() as http:
        done = Records(http).commit(slug, contents)
    value = {"ok": True, "inserted": done.inserted, "unchanged": done.unchanged, "watermark": done.watermark}
    show(value, as_json, f"{done.inserted} new, {done.unchanged} unchanged, store at {done.watermark}")


@command.command("list")
@click.argument("slug", type=SLUG)
@click.argument("section", type=click.Choice(SECTIONS))
@connection_options
def list_records(slug: str, section: str, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """List the live records of a section by number, one a line."""
    from .records import Records

    with http_of() as http:
        for entry in Records(http).live(slug, section):
            value = {
                "id": entry.number,
                "digest": entry.digest,
                "revision": entry.revision,
                "updatedAt": entry.updated_at,
            }
            text = f"{entry.digest}  {entry.revision:>6}  {entry.updated_at}  {entry.number}"
            show(value, as_json, text)


def _lines(rows: "Iterable[JournalRow]", as_json: bool, contents: bool) -> None:
    for row in rows:
        record = row.record
        value = {"storeRevision": row.store_revision, **_described(record, content=contents)}
        text = f"{row.store_revision:>10}  {record.revision:>6}  {record.digest or 'deleted':64}  {record.id.path}"
        show(value, as_json, text)


_section = click.option(
    "--section",
    "sections",
    multiple=True,
    type=click.Choice((*SECTIONS, "commits")),
    help="Only this section. Repeatable.",
)


@command.command("journal")
@click.argument("slug", type=SLUG)
@click.option(
    "--since", type=click.IntRange(0), default=0, show_default=True, help="Only behind this store revision."
)
@click.option("--contents", is_flag=True, help="With --json: the contents too.")
@_section
@connection_options
def journal(
    slug: str,
    since: int,
    contents: bool,
    sections: tuple[str, ...],
    as_json: bool,
    http_of: "Callable[..., Http]",
) -> None:
    """Print the journal: the latest state of every record written since, deletions included, one a line."""
    from moorage.protocols.records import SECTIONS as EVERY

    from .records import Records

    with http_of() as http:
        _lines(Records(http).journal(slug, since=since, sections=sections or EVERY), as_json, contents)


@command.command("export")
@click.argument("slug", type=SLUG)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@_section
@connection_options
def export(slug: str, folder: Path, sections: tuple[str, ...], as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Write the live records of a repository below FOLDER, as records/<slug>/<section>/<file>.

    Files are written over those that are there; nothing is removed. `moorage hydrate` makes an exact tree.
    """
    from moorage.protocols.records import SECTIONS as EVERY

    from .records import Records

    written = 0
    with http_of() as http:
        for row in Records(http).journal(slug, sections=sections or EVERY):
            if row.record.content is not None:
                path = folder / row.record.id.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(row.record.content)
                written += 1
    show({"ok": True, "written": written}, as_json, f"{written} records below {folder}")


@command.command("snapshot")
@click.argument("slug", type=SLUG)
@click.option("--trigger", is_flag=True, help="Build a new one first.")
@connection_options
def snapshot(slug: str, trigger: bool, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Print the newest snapshot of a repository."""
    from .errors import NotFound
    from .snapshots import Snapshots

    with http_of() as http:
        snapshots = Snapshots(http)
        found = snapshots.trigger(slug) if trigger else snapshots.latest(slug)
    if found is None:
        raise NotFound(404, "snapshot_not_found", {}, what=slug)
    value = {
        "repoSlug": found.slug,
        "revisionWatermark": found.watermark,
        "objectKey": found.object_key,
        "bytes": found.bytes,
        "uncompressedBytes": found.uncompressed_bytes,
        "fileCount": found.file_count,
        "createdAt": found.created_at,
    }
    show(
        value,
        as_json,
        f"{found.file_count} files at revision {found.watermark}, {found.bytes} bytes, {found.object_key}",
    )


@command.command("audit")
@click.argument("source")
@click.option("--number", "numbers", multiple=True, type=NUMBER, help="Only this item. Repeatable.")
@click.option("--fail", is_flag=True, help="Status 1 when anything was found.")
@connection_options
def audit(source: str, numbers: tuple[int, ...], fail: bool, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """List, per report, every place where a key of its header also appears outside it.

    SOURCE is a repository (owner/name or slug), or an existing folder or file of reports. Advisory: wider than what
    any decision uses, and used by none.
    """
    from moorage.protocols.spoofing import inventory

    sightings = 0
    for name, text in _reports(source, numbers, http_of):
        for sighting in inventory(text):
            sightings += 1
            value = {
                "report": name,
                "key": sighting.key,
                "place": sighting.place.name.lower(),
                "line": sighting.line,
                "text": sighting.text,
            }
            if as_json:
                click.echo(json.dumps(value, ensure_ascii=False))
            else:
                click.echo(f"{name}:{sighting.line}: {sighting.key}: {sighting.place.value}: {sighting.text[:120]}")
    if not as_json:
        click.echo(f"{sightings} lookalikes", err=True)
    if fail and sightings:
        raise SystemExit(1)


def _reports(source: str, numbers: tuple[int, ...], http_of: "Callable[..., Http]") -> Iterator[tuple[str, str]]:
    """Yields name and text of the reports of a folder, a file or a repository."""
    path = Path(source)
    if path.exists():
        files = [path] if path.is_file() else sorted(path.rglob("*.md"))
        for file in files:
            if not numbers or file.stem in {str(number) for number in numbers}:
                yield str(file), file.read_bytes().decode("utf-8", "replace")
        return
    from .records import Records

    slug = SLUG.convert(source, None, None)
    with http_of() as http:
        records = Records(http)
        if numbers:
            for number in numbers:
                for record in records.item(slug, number).records.values():
                    if record.content is not None and record.id.section in ("items", "closed"):
                        yield record.id.path, record.content.decode("utf-8", "replace")
            return
        for row in records.journal(slug, sections=["items", "closed"]):
            if row.record.content is not None:
                yield row.record.id.path, row.record.content.decode("utf-8", "replace")
