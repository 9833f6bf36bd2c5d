"""The ImageRepository reconciler: list the tags of an image, apply the exclusions, store the rest.

A scan is due when the interval has passed, when a user requests one, or when the image or the
exclusions have changed. If the registry supports conditional requests, an unchanged list costs one
such request, and only the time of the scan is written.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final

from controllers.access.registries import Registries, in_time
from controllers.image import access
from controllers.image.taglists import TagList, TagLists
from crds.image import ImageRepository, ScanResult
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.policy import tags
from toolkit.policy.imagereference import ImageReference
from toolkit.remote.oci.errors import RegistryAuthError, RegistryError

READ_FAILED: Final = "ReadOperationFailed"
_SHOWN: Final = 10
_SOON: Final = 1.0


class ImageRepositoryReconciler:
    """One pass over one image."""

    def __init__(self, registries: Registries, lists: TagLists) -> None:
        self._registries = registries
        self._lists = lists

    async def reconcile(self, rec: Reconciliation[ImageRepository]) -> Outcome:
        """Scan if that is due."""
        obj = rec.obj
        image = access.reference(obj)
        kept = await self._kept(obj, access.canonical(image))
        left = _left(obj)
        if kept is not None and left > 0 and "requested" not in rec.triggers:
            return _outcome(kept, after=max(left, _SOON), quiet=True)
        if kept is None:  # a scan that only looks for changes is not worth a write
            await rec.progress("scanning image repository for tags")
        found = await self._scan(obj, image, kept)
        digest = found.revision
        if kept is None or kept != found:
            digest = await self._lists.write(obj, found)
        rec.revision = digest
        result = ScanResult(
            revision=digest,
            tag_count=len(found.tags),
            scan_time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            latest_tags=list(found.tags[:_SHOWN]),
        )
        rec.status(
            {
                "canonicalImageName": access.canonical(image),
                "lastScanResult": result,
                "observedExclusionList": obj.spec.exclusion_list or None,
            }
        )
        outcome = _outcome(found, after=obj.spec.interval_seconds)
        before = obj.status.last_scan_result
        if before is None or before.revision != digest:
            rec.event("info", outcome.reason, outcome.message)
        return outcome

    async def finalize(self, rec: Reconciliation[ImageRepository]) -> None:
        """Delete the tags that are kept."""
        await self._lists.remove(rec.key.namespace, rec.key.name)

    async def _kept(self, obj: ImageRepository, name: str) -> TagList | None:
        """Return the tags of the last scan, if image and exclusions are still the same."""
        status = obj.status
        same = status.canonical_image_name == name
        if not same or status.observed_exclusion_list != obj.spec.exclusion_list:
            return None
        return await self._lists.read(obj)

    async def _scan(
        self, obj: ImageRepository, image: ImageReference, kept: TagList | None
    ) -> TagList:
        """List the tags in the registry; return ``kept`` if they have not changed.

        Raises:
            RegistryError: the registry does not answer, or has too many tags.
        """
        try:
            async with (
                in_time(obj.spec.timeout_seconds, "the list of tags"),
                access.opened(self._registries, obj, image) as registry,
            ):
                listed = await registry.list_tags(
                    image.repository, known=kept.known if kept else ""
                )
        except RegistryAuthError as exc:
            raise exc.within("scan failed", reason="AuthenticationFailed") from exc
        except RegistryError as exc:
            raise exc.within("scan failed", reason=READ_FAILED) from exc
        if listed is None and kept is not None:
            return kept
        if listed is None:
            raise RegistryError(
                "scan failed: the registry says that nothing has changed, and was not asked that",
                reason=READ_FAILED,
            )
        # Off the loop: a list may have many tags, and there may be many patterns.
        left = await asyncio.to_thread(tags.excluded, obj.spec.exclusion_list, listed.tags)
        return TagList(tags=tuple(left), known=listed.known)


def _left(obj: ImageRepository) -> float:
    """Return the seconds until the next scan is due."""
    result = obj.status.last_scan_result
    if result is None or not result.scan_time:
        return 0.0
    try:
        passed = (datetime.now(UTC) - datetime.fromisoformat(result.scan_time)).total_seconds()
    except (ValueError, TypeError):  # Not a time, or without a time zone.
        return 0.0
    return obj.spec.interval_seconds - passed if passed >= 0 else 0.0


def _outcome(found: TagList, *, after: float, quiet: bool = False) -> Outcome:
    message = f"successful scan: found {len(found.tags)} tags with checksum {found.revision}"
    return Outcome(message=message, requeue_after=after, quiet=quiet)
