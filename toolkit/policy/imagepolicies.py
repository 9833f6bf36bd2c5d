"""Decide which ImageVerificationPolicies an image needs, and what of an update is new. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from crds.policy_image import ImageVerificationPolicy
from crds.policy_parts import Mode
from toolkit.policy import imagereference, images, urls
from toolkit.policy.imagereference import ImageReference
from toolkit.policy.images import Image

VERIFY: Final = "policy.penstock.dev/verify"
"""Annotation of an ImagePolicy: names of ImageVerificationPolicies that its choice must satisfy."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST: Final = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An image that does not satisfy a policy.

    ``passing`` means that the check failed for a temporary reason, and another attempt may succeed.
    """

    image: Image
    policy: str
    mode: Mode
    why: str
    passing: bool = False

    def __str__(self) -> str:
        text = ascii(self.image.text[:300])[1:-1]
        return (
            f"{self.image.owner}: image '{text}': {self.why} "
            f"(ImageVerificationPolicy '{self.policy}')"
        )


def binds(policy: ImageVerificationPolicy, reference: ImageReference) -> bool:
    """Tell whether a policy of the namespace is about an image, by its repository."""
    repository = str(reference.repository)

    def named(patterns: Iterable[str]) -> bool:
        return any(urls.matches(_same_host(pattern), repository) for pattern in patterns)

    return named(policy.spec.images) and not named(policy.spec.exclude)


def required(policy: ImageVerificationPolicy) -> int:
    """Return how many verifiers must find a signature."""
    return policy.spec.required or len(policy.spec.verifiers)


def named(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the policies that the annotation names, separated by commas.

    Raises:
        ValueError: it names something that no policy can be called, or nothing.
    """
    if VERIFY not in annotations:
        return ()
    names = [each.strip() for each in annotations[VERIFY].split(",")]
    for name in names:
        if len(name) > _LONGEST or not _NAME.fullmatch(name):
            raise ValueError(
                f"'{ascii(name[:80])[1:-1]}' is not a name of an ImageVerificationPolicy"
            )
    return tuple(dict.fromkeys(names))


def changed(obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> tuple[Image, ...]:
    """Return the images of an object that its old version does not have, in any place.

    Images that were admitted before are not checked again, because an update of other fields must
    not depend on a registry. Pods are always checked when they are created.
    """
    before = {image.text for image in images.images(old)} if old is not None else set[str]()
    return tuple(image for image in images.images(obj) if image.text not in before)


def restored(
    new: Iterable[Image], old: Mapping[str, Any] | None
) -> tuple[Mapping[images.Path, str], tuple[Image, ...]]:
    """Return the digests to restore, and the images whose change is not a removed digest.

    A user who applies a manifest again writes the tag where the object now has the pinned digest.
    As in a cluster without pinning, the same tag is not a change.
    """
    before = {image.path: image.text for image in images.images(old)} if old is not None else {}
    back, left = {}, []
    for image in new:
        former = before.get(image.path, "")
        if former != image.text and imagereference.without_digest(former) == image.text:
            back[image.path] = former
        else:
            left.append(image)
    return back, tuple(left)


def _same_host(pattern: str) -> str:
    """Return the pattern with the one spelling of its registry that images are compared in."""
    host, slash, path = pattern.partition("/")
    return f"{imagereference.same_registry(host)}{slash}{path}"
