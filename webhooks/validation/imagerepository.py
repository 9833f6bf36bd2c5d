"""Rules for an ImageRepository."""

from collections.abc import Iterator
from typing import Final

from crds import IMAGE_REPOSITORY
from crds.image import ImageRepository
from toolkit.policy import imagereference
from webhooks.validation import fetching, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, read, when


def _image(obj: ImageRepository) -> Iterator[Fault]:
    text = obj.spec.image
    if "://" in text:
        # the value stays out: a URL may hold a password
        yield Fault("spec.image", "it has a scheme")
    elif not text:
        yield Fault("spec.image", "it is empty")
    elif "@" in text or ":" in text.rpartition("/")[2]:
        yield Fault("spec.image", "it has a tag or a digest", text)
    else:
        yield from read("spec.image", text, imagereference.parse)


def _unused(obj: ImageRepository) -> Iterator[Fault]:
    spec = obj.spec
    lent = spec.provider != "generic" and spec.secret_ref is not None
    why = "it has no effect beside spec.secretRef"
    yield from when(lent, "spec.provider", why, spec.provider)


RULES: Final[tuple[Rule[ImageRepository], ...]] = (
    Rule(
        name="image-name",
        fields=("spec.image",),
        demands="it is the name of an image, without scheme, tag or digest",
        remedy="write it as <host>/<name>, in lower case; tags are chosen by an ImagePolicy",
        find=_image,
    ),
    fetching.LENT,
    fetching.INSECURE,
    Rule(
        name="field-unused",
        fields=("spec.provider",),
        demands="it is looked at",
        remedy="remove it, or the field that makes it ineffective",
        find=_unused,
        refuses=False,
    ),
    *schedule.rules("interval", "timeout"),
)

CHECKS: Final = Checks(
    kind=IMAGE_REPOSITORY,
    rules=RULES,
    names=(
        Named(path="spec.secretRef", kind="Secret"),
        Named(path="spec.certSecretRef", kind="Secret"),
        Named(path="spec.proxySecretRef", kind="Secret"),
        Named(path="spec.serviceAccountName", kind="ServiceAccount"),
    ),
    patterns=("spec.exclusionList[]",),
    selectors=("spec.accessFrom.namespaceSelectors[]",),
)
