"""The ImagePolicy reconciler: choose one of the tags that an ImageRepository has found.

If an ImageVerificationPolicy applies, only a signed image is chosen (``admitting``).
"""

import asyncio
from collections.abc import Awaitable, Callable

from controllers import grants
from controllers.access.registries import Registries, in_time
from controllers.image import access
from controllers.image.admitting import VERIFIED, Admission
from controllers.image.repositories import NOT_READY, Repositories
from controllers.image.taglists import TagList, TagLists
from crds import meta
from crds.image import ImagePolicy, ImageRef, ImageRepository
from toolkit.errors import WaitingError
from toolkit.kube import conditions
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.policy import tags
from toolkit.remote.oci.errors import RegistryError


class ImagePolicyReconciler:
    """One pass over one policy."""

    def __init__(
        self,
        repositories: Repositories,
        lists: TagLists,
        registries: Registries,
        *,
        admission: Admission,
        known: Callable[[], Awaitable[None]],
    ) -> None:
        self._admission = admission
        self._known = known
        self._repositories = repositories
        self._lists = lists
        self._registries = registries

    async def reconcile(self, rec: Reconciliation[ImagePolicy]) -> Outcome:
        """Choose a tag, and tell it."""
        obj = rec.obj
        await self._known()
        grants.tell(rec, self._repositories.references)
        repository = self._repositories.of(obj)
        found = await self._lists.read(repository)
        if found is None or not found.tags:
            raise WaitingError(
                f"ImageRepository '{repository.metadata.namespace}/{repository.metadata.name}' has "
                "no tags: look at its conditions; the policy follows by itself",
                reason=NOT_READY,
            )
        told = _verified(rec)
        demanded = self._admission.demanded(rec, access.reference(repository))
        if demanded:
            latest = await self._admission.choose(rec, repository, found.tags, demanded)
        else:
            rec.unmark(VERIFIED)
            latest = await self._chosen(obj, repository, found)
        before = obj.status.latest_ref
        changed = latest != before
        rec.revision = latest.tag
        previous = before if changed else obj.status.observed_previous_ref
        rec.status({"latestRef": latest, "observedPreviousRef": previous})
        outcome = Outcome(
            message=_message(latest, previous),
            requeue_after=_after(obj, repository if demanded else None),
            quiet=not changed and told == _verified(rec),
        )
        if changed:
            rec.event("info", outcome.reason, outcome.message)
        return outcome

    async def finalize(self, rec: Reconciliation[ImagePolicy]) -> None:
        """Drop the verified choice of the object."""
        self._admission.forget(rec.key)

    async def _chosen(
        self, obj: ImagePolicy, repository: ImageRepository, found: TagList
    ) -> ImageRef:
        # Off the loop: there may be many tags, and a pattern takes its time.
        chosen = await asyncio.to_thread(
            tags.choose, obj.spec.policy, obj.spec.filter_tags, found.tags
        )
        return await self._reflected(obj, repository, chosen)

    async def _reflected(self, obj: ImagePolicy, repository: ImageRepository, tag: str) -> ImageRef:
        """Return the image, with its digest if the policy asks for it."""
        latest = ImageRef(name=repository.spec.image, tag=tag)
        wanted, before = obj.spec.digest_reflection_policy, obj.status.latest_ref
        if wanted == "Never":
            return latest
        known = before and before.digest and (before.name, before.tag) == (latest.name, tag)
        if before and known and wanted == "IfNotPresent":
            return before
        image = access.reference(repository)
        try:
            async with (
                in_time(repository.spec.timeout_seconds, "the digest"),
                access.opened(self._registries, repository, image) as registry,
            ):
                descriptor = await registry.resolve(image.repository, tag)
        except RegistryError as exc:
            raise exc.within("failed fetching digest", reason="ReadOperationFailed") from exc
        return ImageRef(name=latest.name, tag=tag, digest=descriptor.digest)


def _verified(rec: Reconciliation[ImagePolicy]) -> object:
    """Return status and message of the condition ``ImageVerified``."""
    found = conditions.find(rec.conditions, VERIFIED)
    return found and (found["status"], found["message"])


def _after(obj: ImagePolicy, verified: ImageRepository | None) -> float | None:
    """Return the seconds until the next check of digests and signatures; None without either."""
    always = obj.spec.digest_reflection_policy == "Always"
    found = [meta.interval_seconds(obj.spec.interval)] if always and obj.spec.interval else []
    if verified is not None:
        found.append(verified.spec.interval_seconds)
    return min(found, default=None)


def _message(latest: ImageRef, previous: ImageRef | None) -> str:
    digest = f" with digest {latest.digest}" if latest.digest else ""
    before = f" (previously {written(previous)})" if previous else ""
    return f"Latest image tag for {latest.name} resolved to {latest.tag}{digest}{before}"


def written(image: ImageRef) -> str:
    """Return an image as it is written in manifests."""
    return f"{image.name}:{image.tag}" + (f"@{image.digest}" if image.digest else "")
