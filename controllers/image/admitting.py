"""Choose only images that admission would accept (``ImageVerificationPolicy``).

1. Two kinds of policies apply: those of mode Enforce that select the ImagePolicy's namespace and
   cover the image, and those of any mode that the annotation ``policy.penstock.dev/verify`` names.
2. A tag is resolved once. The resulting digest is verified, and the same digest is in the status of
   the ImagePolicy, whatever its ``digestReflectionPolicy`` (CVE-2022-47633).
3. The digest in the status stays that of its tag, so a tag that moves in the registry changes
   nothing. With ``Always`` the new digest is chosen if it is signed as well.
4. Tags are checked from the best to the worst, and unsigned ones are skipped. The present choice is
   checked last.
5. If the check fails for technical reasons, a choice is kept only if the same policies have allowed
   it before. Otherwise there is no choice, and an automation leaves the image as it is.
6. An automation writes only images that the present policies allow, and verifies them itself,
   because nothing verifies the choice of a suspended ImagePolicy again.

Requests to the registry use the credentials of the ImageRepository: a tenant never uses those of a
policy.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from controllers.access.registries import Registries, in_time
from controllers.image import access
from controllers.image.repositories import Repositories
from crds.image import ImagePolicy, ImageRef, ImageRepository
from crds.policy_image import ImageVerificationPolicy
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
from toolkit.imagetrust.proving import Prover
from toolkit.imagetrust.trust import Rules, Trust
from toolkit.kube import conditions
from toolkit.kube.controller import Reconciliation
from toolkit.objects import ObjectKey
from toolkit.policy import imagepolicies, imagereference, selectors, tags
from toolkit.policy.imagereference import ImageReference
from toolkit.remote.oci.errors import ANSWERS
from toolkit.remote.oci.oci import Descriptor
from toolkit.remote.oci.registry import Registry
from toolkit.verify.signature import VerificationError
from toolkit.verify.subject import Subject

VERIFIED: Final = "ImageVerified"
"""The condition with the signers of the choice, and the tags that were skipped."""
REASON: Final = "VerificationError"
MOST: Final = 50
"""Tags that one reconciliation checks, besides the previous choice."""
_SHOWN: Final = 5
_SIGNED: Final = " is signed by "
_DEMANDED: Final = ", as "
_REFUSED: Final = (VerificationError, *ANSWERS)

Labels = Callable[[str], Mapping[str, str]]
Policies: TypeAlias = tuple[ImageVerificationPolicy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A choice that is to be made among ``tags``, the best first."""

    image: ImageReference
    tags: Sequence[str]
    before: ImageRef | None
    anew: bool
    rules: Sequence[tuple[ImageVerificationPolicy, Mapping[str, Rules]]]
    scope: str

    def steps(self) -> Iterator[tuple[str, str]]:
        """Yield tags with the digest to check; an empty digest is still to be resolved (rule 3)."""
        for tag in self.tags:
            before = self.before
            known = before.digest if before is not None and before.tag == tag else ""
            digests = (known, "") if known and not self.anew else ("", known)
            yield from ((tag, digest) for digest in dict.fromkeys(digests))

    @property
    def policies(self) -> str:
        """Return which policies demand it, for messages."""
        names = ", ".join(f"'{policy.metadata.name}'" for policy, _ in self.rules)
        return f"ImageVerificationPolicy {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admitted:
    tag: str
    digest: str
    signers: tuple[str, ...]


class Admission:
    """Chooses the best tag that the policies of the cluster allow."""

    def __init__(  # noqa: PLR0913 - what a choice rests on
        self,
        policies: Callable[[], Iterable[ImageVerificationPolicy]],
        trust: Trust,
        prover: Prover,
        registries: Registries,
        *,
        labels: Labels,
        installed: str,
    ) -> None:
        self._policies = policies
        self._trust = trust
        self._prover = prover
        self._registries = registries
        self._labels = labels
        self._installed = installed
        self._proven: dict[ObjectKey, tuple[object, ImageRef]] = {}

    def demanded(self, rec: Reconciliation[ImagePolicy], image: ImageReference) -> Policies:
        """Return the policies that apply to the object's choice (rule 1).

        Raises:
            StalledError: the annotation names a missing policy, or one for other images.
            WaitingError: the labels of the namespace are not read yet.
        """
        try:
            return self._demanded(rec.obj, image)
        except StalledError as exc:
            rec.mark(VERIFIED, "False", exc.reason, str(exc))
            rec.status({"latestRef": None})  # rule 5
            raise

    def _demanded(self, obj: ImagePolicy, image: ImageReference) -> Policies:
        known = {policy.metadata.name: policy for policy in self._policies()}
        chosen = {name: _bound(known.get(name), name, image) for name in _named(obj)}
        if known:
            namespace = obj.metadata.namespace
            applicable = selectors.applicable(
                known.values(),
                namespace=namespace,
                labels=self._labels(namespace),
                installed=self._installed,
            )
            chosen |= {
                policy.metadata.name: policy
                for policy in applicable
                if policy.spec.mode == "Enforce" and imagepolicies.binds(policy, image)
            }
        return tuple(policy for _, policy in sorted(chosen.items()))

    async def choose(
        self,
        rec: Reconciliation[ImagePolicy],
        repository: ImageRepository,
        listed: Sequence[str],
        policies: Policies,
    ) -> ImageRef:
        """Return the best image that the policies allow, and set the condition with its signers.

        Raises:
            WaitingError: the policies allow none.
            PenstockError: the check failed for technical reasons.
        """
        # Off the loop: there may be many tags, and a pattern takes its time.
        ranked = await asyncio.to_thread(
            tags.ranked, rec.obj.spec.policy, rec.obj.spec.filter_tags, listed, most=MOST
        )
        before = rec.obj.status.latest_ref
        if before is not None and before.tag not in ranked and before.tag in listed:
            ranked.append(before.tag)  # rule 4
        demanded = _identities(policies)
        try:
            latest = await self._chosen(rec, repository, ranked, policies)
        except PenstockError as exc:
            unknown = isinstance(exc, TransientError) and not isinstance(exc, VerificationError)
            rec.mark(VERIFIED, "Unknown" if unknown else "False", exc.reason, str(exc))
            if not unknown or self._proven.get(rec.key) != (demanded, rec.obj.status.latest_ref):
                rec.status({"latestRef": None})  # rule 5
            raise
        self._proven[rec.key] = (demanded, latest)
        return latest

    async def require(
        self, obj: ImagePolicy, latest: ImageRef, repositories: Repositories, *, deadline: float
    ) -> None:
        """Let the choice that an ImagePolicy tells be written into a repository (rule 6).

        ``deadline`` is a moment of the monotonic clock.

        Raises:
            VerificationError: it is not signed, or was never verified.
            PenstockError: it could not be found out in time.
        """
        policies = self._demanded(obj, imagereference.parse(latest.name))
        key = ObjectKey(obj.metadata.namespace, obj.metadata.name)
        proof = (_identities(policies), latest)
        proven = self._proven.get(key) == proof
        if not policies or (proven and not obj.spec.suspend):
            return
        repository = repositories.of(obj)
        if repository.spec.image != latest.name:
            raise VerificationError(f"its ImageRepository has another image than '{latest.name}'")
        asked = await self._asked(obj, repository, (), policies)
        if not latest.digest:
            raise VerificationError(
                f"{latest.name}:{latest.tag} was chosen before {asked.policies} was in force"
            )
        seconds = min(deadline - time.monotonic(), repository.spec.timeout_seconds)
        try:
            await self._require(asked, repository, latest.digest, seconds=seconds)
        except _REFUSED as exc:
            raise VerificationError(
                f"{latest.tag}@{latest.digest} is not signed as {asked.policies} demands: {exc}"
            ) from exc
        except TransientError:
            if not proven:  # rule 5
                raise
        self._proven[key] = proof

    async def _require(
        self, asked: _Asked, repository: ImageRepository, digest: str, *, seconds: float
    ) -> None:
        if seconds <= 0:
            raise TransientError("there was no time left to look at its signature")
        async with (
            in_time(seconds, "its signature"),
            access.opened(self._registries, repository, asked.image) as registry,
        ):
            await self._signers(asked, registry, digest)

    def forget(self, key: ObjectKey) -> None:
        """Forget an ImagePolicy that is deleted."""
        self._proven.pop(key, None)

    async def _chosen(
        self,
        rec: Reconciliation[ImagePolicy],
        repository: ImageRepository,
        ranked: Sequence[str],
        policies: Policies,
    ) -> ImageRef:
        asked = await self._asked(rec.obj, repository, ranked, policies)
        passed: dict[str, str] = {}
        async with (
            in_time(repository.spec.timeout_seconds, "the signatures of its tags"),
            access.opened(self._registries, repository, asked.image) as registry,
        ):
            found = await self._first(asked, registry, passed)
        if found is None:
            raise WaitingError(
                f"no tag of {repository.spec.image} is signed as {asked.policies} demands: "
                f"{_told(passed)}: sign one, the policy follows by itself",
                reason=REASON,
                retry_after=repository.spec.interval_seconds,
            )
        message = (
            f"{found.tag}@{found.digest}{_SIGNED}{', '.join(found.signers)}{_DEMANDED}"
            f"{asked.policies} demands" + (f"; not chosen: {_told(passed)}" if passed else "")
        )
        _tell(rec, message, passed=bool(passed))
        return ImageRef(name=repository.spec.image, tag=found.tag, digest=found.digest)

    async def _asked(
        self,
        obj: ImagePolicy,
        repository: ImageRepository,
        ranked: Sequence[str],
        policies: Policies,
    ) -> _Asked:
        rules = [(policy, (await self._trust.of(policy)).verifiers) for policy in policies]
        before = obj.status.latest_ref
        return _Asked(
            image=access.reference(repository),
            tags=ranked,
            before=before if before and before.name == repository.spec.image else None,
            anew=obj.spec.digest_reflection_policy == "Always",
            rules=rules,
            # the object whose credentials and settings the registry client uses
            scope=f"{repository.metadata.namespace}/{repository.metadata.name}",
        )

    async def _first(
        self, asked: _Asked, registry: Registry, passed: dict[str, str]
    ) -> _Admitted | None:
        """Return the first that all policies let pass; ``passed`` gets the others (rule 4)."""
        seen = set[tuple[str, str]]()
        for tag, known in asked.steps():
            try:
                repository = asked.image.repository
                digest = known or (await registry.resolve(repository, tag)).digest
                if (tag, digest) in seen:
                    continue
                seen.add((tag, digest))
                signers = await self._signers(asked, registry, digest)
            except _REFUSED as exc:
                passed.setdefault(tag, str(exc))
                continue
            return _Admitted(tag=tag, digest=digest, signers=signers)
        return None

    async def _signers(self, asked: _Asked, registry: Registry, digest: str) -> tuple[str, ...]:
        subject = Subject(
            store=registry,
            repository=asked.image.repository,
            descriptor=Descriptor(media_type="", digest=digest, size=0),
        )
        signers: list[str] = []
        for policy, rules in asked.rules:
            signers += await self._prover.signers(subject, policy, rules, scope=asked.scope)
        return tuple(dict.fromkeys(signers))


def _identities(policies: Policies) -> object:
    return tuple((p.metadata.name, p.metadata.uid, p.metadata.generation) for p in policies)


def signers(policy: ImagePolicy) -> str:
    """Return the signers of a policy's choice, from its condition; empty if it was not verified."""
    latest = policy.status.latest_ref
    found = next((each for each in policy.status.conditions if each.type == VERIFIED), None)
    if latest is None or found is None or found.status != "True":
        return ""
    about, _, rest = found.message.partition(_SIGNED)
    return rest.partition(_DEMANDED)[0] if about == f"{latest.tag}@{latest.digest}" else ""


def _tell(rec: Reconciliation[ImagePolicy], message: str, *, passed: bool) -> None:
    """Set the condition with the signers; if tags were skipped, send an event when that changes."""
    before = conditions.find(rec.conditions, VERIFIED)
    rec.mark(VERIFIED, "True", "Succeeded", message)
    if passed and (before or {}).get("message") != conditions.shortened(message):
        rec.event("error", REASON, message)


def _named(obj: ImagePolicy) -> tuple[str, ...]:
    try:
        return imagepolicies.named(obj.metadata.annotations)
    except ValueError as exc:
        raise StalledError(
            f"annotation {imagepolicies.VERIFY}: {exc}: write names, separated by commas",
            reason=REASON,
        ) from exc


def _bound(
    policy: ImageVerificationPolicy | None, name: str, image: ImageReference
) -> ImageVerificationPolicy:
    """Return a policy that the annotation names, if it is one for the image."""
    if policy is None:
        why = "there is none of this name"
    elif not imagepolicies.binds(policy, image):
        why = f"its spec.images do not name '{image.repository}'"
    else:
        return policy
    raise StalledError(
        f"annotation {imagepolicies.VERIFY} names ImageVerificationPolicy '{name}', but {why}",
        reason=REASON,
    )


def _told(passed: Mapping[str, str]) -> str:
    shown = [f"{tag}: {why}" for tag, why in list(passed.items())[:_SHOWN]]
    more = len(passed) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
