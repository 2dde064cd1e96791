"""Uploads of snapshots that a runner built: what was promised, which parts are there, and the clean-up.

Rules: `moorage.protocols.snapshot_uploads`; spec state-plane-protocol 4.5. The reference keeps this in an object of
its own; here it lies in tables of the queue object, so that the registration at the end needs no second object.
Methods await the bucket; what they knew before is read again after it.
"""

import logging
import uuid
from typing import Any, Final

import msgspec

from moorage.protocols import snapshot_uploads as rules
from moorage.protocols import snapshots
from moorage.protocols.records import decode_base64, digest_of
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.snapshot_uploads import (
    InvalidSnapshotDigest,
    InvalidSnapshotManifestPart,
    InvalidSnapshotPartData,
    SnapshotDigestMismatch,
    SnapshotManifestDigestMismatch,
    SnapshotManifestMissing,
    SnapshotPartDigestMismatch,
    SnapshotPartSizeMismatch,
    SnapshotPartTooLarge,
)
from moorage.protocols.wire.snapshots import InvalidSnapshotIdentities, SnapshotSizeMismatch

from .snapshot_upload_rows import SnapshotUploads, Upload
from .snapshots import BUCKET, SnapshotMethods, bucket_of

log = logging.getLogger("moorage.objects.snapshot_uploads")

CLEANED_PER_CALL: Final = 4

MAX_DATA_TEXT: Final = snapshots.PART_BYTES // 3 * 4
"""Base64 digits of a full part."""


class SnapshotUploadMethods(SnapshotMethods):
    """The queue object's methods for uploads. A failure of the bucket passes; the route answers it with 503."""

    snapshot_uploads: SnapshotUploads

    @wire_method
    async def start_snapshot_upload(self, members: dict[str, Any]) -> Reply:
        """201 with the upload, 200 when the operation id began it before. Refuses as `parse_start` and
        `of_operation` raise."""
        bucket = bucket_of(self.env)
        await self.clean_snapshot_uploads()
        rules.check_request(members, "start", self.now())
        start = rules.parse_start(members)
        known = self.snapshot_uploads.of_operation(start)
        if known is not None:
            return reply(known.answer())
        now = self.now()
        upload_id = str(uuid.uuid4())
        key = snapshots.object_key(start.descriptor.slug, start.descriptor.watermark, now, upload_id)
        metadata = {"sha256": start.sha256, "verified": "parts-and-length"}
        options = {"httpMetadata": {"contentType": "application/gzip"}, "customMetadata": metadata}
        opened = await bucket.createMultipartUpload(key, options)
        expires_at = max(now, start.issued_at or now) + rules.UPLOAD_LIFETIME_MS
        upload = Upload(
            upload_id, start.fingerprint, start.descriptor, start.sha256, key, opened.uploadId, False, now, expires_at
        )
        try:
            rival = self.snapshot_uploads.of_operation(start)
        except Exception:
            await opened.abort()
            raise
        if rival is not None:
            await opened.abort()
            return reply(rival.answer())
        self.snapshot_uploads.open(upload, start.operation_id)
        await self.uploads_changed()
        return reply(upload.answer(), 201)

    @wire_method
    async def put_snapshot_part(self, members: dict[str, Any]) -> Reply:
        """200 with the part's receipt. Refuses in the order of spec state-plane-protocol 4.5."""
        bucket = bucket_of(self.env)
        rules.check_request(members, "part", self.now())
        upload = self.snapshot_uploads.living(rules.parse_upload_id(members))
        number = rules.parse_part_number(members, upload.descriptor.part_count)
        data = _part_data(members, upload, number)
        sha256 = _part_digest(members, upload, data)
        etag = self.snapshot_uploads.reserve_part(upload.upload_id, number, len(data), sha256)
        if etag is None:
            handle = bucket.resumeMultipartUpload(upload.object_key, upload.r2_upload_id)
            etag = str((await handle.uploadPart(number, data)).etag)
            self.snapshot_uploads.keep_part(upload.upload_id, number, etag)
        return reply({"ok": True, "part": {"partNumber": number, "etag": etag}})

    @wire_method
    async def stage_snapshot_manifest(self, members: dict[str, Any]) -> Reply:
        """200. Refuses: invalid_snapshot_manifest_part, invalid_snapshot_identities, snapshot_manifest_conflict."""
        bucket = bucket_of(self.env)
        rules.check_request(members, "manifest", self.now())
        upload = self.snapshot_uploads.living(rules.parse_upload_id(members))
        count = upload.descriptor.manifest_count
        number = snapshots.strict_integer(members.get("partNumber"), 1, count)
        if number is None:
            raise InvalidSnapshotManifestPart
        try:
            identities = snapshots.parse_identities(members.get("identities"))
        except InvalidSnapshotIdentities:
            raise InvalidSnapshotIdentities from None
        if len(identities) != upload.descriptor.manifest_size(number):
            raise InvalidSnapshotIdentities
        text = msgspec.json.encode([list(pair) for pair in identities])
        digest = digest_of(text)
        self.snapshot_uploads.reserve_manifest(upload.upload_id, number, digest)
        await bucket.put(snapshots.manifest_key(upload.object_key, number), text)
        self.snapshot_uploads.reserve_manifest(upload.upload_id, number, digest)
        self.snapshot_uploads.keep_manifest(upload.upload_id, number, digest)
        return reply({"ok": True})

    @wire_method
    async def complete_snapshot_upload(self, members: dict[str, Any]) -> Reply:
        """The registration's answer; may be repeated when it was lost."""
        bucket = bucket_of(self.env)
        rules.check_request(members, "complete", self.now())
        upload = self.snapshot_uploads.living(rules.parse_upload_id(members))
        parts = self.snapshot_uploads.parts(upload.upload_id)
        receipts = {number: etag for number, (etag, _) in parts.items()}
        etags = rules.check_parts(members.get("parts"), upload.descriptor.part_count, receipts)
        if sum(size for _, size in parts.values()) != upload.descriptor.bytes:
            raise SnapshotSizeMismatch
        if await bucket.head(upload.object_key) is None:
            handle = bucket.resumeMultipartUpload(upload.object_key, upload.r2_upload_id)
            listed = [{"partNumber": number, "etag": etag} for number, etag in enumerate(etags, 1)]
            await handle.complete(listed)
        identities = members.get("identities")
        if identities is None and upload.descriptor.identity_digest is not None:
            identities = await self._staged_identities(upload, bucket)
        envelope = await self.register(upload.registration(identities))
        await self._delete_manifests(upload, bucket)
        return reply(envelope, 201)

    async def _staged_identities(self, upload: Upload, bucket: Any) -> list[Any]:
        """Returns the staged lists, joined. Raises SnapshotManifestMissing, SnapshotManifestDigestMismatch."""
        identities: list[Any] = []
        for number in range(1, upload.descriptor.manifest_count + 1):
            found = await bucket.get(snapshots.manifest_key(upload.object_key, number))
            digest = self.snapshot_uploads.manifests(upload.upload_id).get(number)
            if found is None or digest is None:
                raise SnapshotManifestMissing
            text = bytes(await found.bytes())
            if digest_of(text) != digest:
                raise SnapshotManifestDigestMismatch
            identities += msgspec.json.decode(text)
        return identities

    @wire_method
    async def abort_snapshot_upload(self, members: dict[str, Any]) -> Reply:
        """200; the parts, or the object when it is not registered, are gone."""
        bucket = bucket_of(self.env)
        rules.check_request(members, "abort", self.now())
        upload = self.snapshot_uploads.living(rules.parse_upload_id(members))
        self.snapshot_uploads.abort(upload.upload_id)
        await self._remove(upload, bucket)
        return reply({"ok": True})

    async def clean_snapshot_uploads(self) -> None:
        """Removes what a bounded number of expired uploads left in the bucket, then the uploads themselves.

        A bucket that fails keeps them for another try. Called by `start`, and by the object's alarm.
        """
        bucket = getattr(self.env, BUCKET, None)
        for upload in self.snapshot_uploads.due(CLEANED_PER_CALL) if bucket is not None else ():
            try:
                await self._remove(upload, bucket)
            except Exception:
                again = self.snapshot_uploads.postpone(upload.upload_id)
                log.warning(
                    "what an expired snapshot upload left could not be removed %s: %s",
                    "yet" if again else "and stays",
                    upload.object_key,
                    exc_info=True,
                )
            else:
                self.snapshot_uploads.drop(upload.upload_id)

    async def uploads_changed(self) -> None:
        """Called when an upload was opened, so that the object sets its alarm."""

    async def _remove(self, upload: Upload, bucket: Any) -> None:
        await self._delete_manifests(upload, bucket)
        if upload.r2_upload_id is not None:
            await bucket.resumeMultipartUpload(upload.object_key, upload.r2_upload_id).abort()
        async with self.snapshots.registering:
            if self.snapshots.by_key(upload.object_key) is None:
                await bucket.delete(upload.object_key)

    async def _delete_manifests(self, upload: Upload, bucket: Any) -> None:
        keys = [
            snapshots.manifest_key(upload.object_key, number)
            for number in self.snapshot_uploads.manifests(upload.upload_id)
        ]
        if keys:
            await bucket.delete(keys)


def _part_data(members: dict[str, Any], upload: Upload, number: int) -> bytes:
    text = members.get("data")
    if not isinstance(text, str) or len(text) > MAX_DATA_TEXT:
        raise SnapshotPartTooLarge
    data = decode_base64(text)
    if data is None:
        raise InvalidSnapshotPartData
    if len(data) != upload.descriptor.part_size(number):
        raise SnapshotPartSizeMismatch
    return data


def _part_digest(members: dict[str, Any], upload: Upload, data: bytes) -> str:
    declared = members.get("sha256")
    if not isinstance(declared, str) or not snapshots.is_digest(declared):
        raise InvalidSnapshotDigest
    if digest_of(data) != declared:
        raise SnapshotPartDigestMismatch
    if upload.descriptor.part_count == 1 and declared != upload.sha256:
        raise SnapshotDigestMismatch
    return declared
