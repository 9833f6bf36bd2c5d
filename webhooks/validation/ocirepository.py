"""Rules for an OCIRepository."""

from collections.abc import Iterator
from typing import Final

from crds import OCI_REPOSITORY
from crds.source_oci import OCIRepository
from toolkit import regexp
from toolkit.remote.oci import oci
from toolkit.remote.oci.oci import Repository
from webhooks.validation import fetching, patterns, refs, schedule, signing
from webhooks.validation.rule import Checks, Fault, Named, Rule, read, when


def _url(obj: OCIRepository) -> Iterator[Fault]:
    yield from fetching.registry_url(obj.spec.url, Repository.parse)


def _reference(obj: OCIRepository) -> Iterator[Fault]:
    ref = obj.spec.ref
    if ref is None:
        return
    wrong = ref.digest and not oci.is_digest(ref.digest)
    yield from when(wrong, "spec.ref.digest", "it is not a digest", ref.digest)
    wrong = ref.tag and not oci.is_tag(ref.tag)
    yield from when(wrong, "spec.ref.tag", "it cannot be a tag", ref.tag)


def _filter(obj: OCIRepository) -> Iterator[Fault]:
    if obj.spec.ref:
        yield from read("spec.ref.semverFilter", obj.spec.ref.semver_filter, regexp.compiled)


def _overruled(obj: OCIRepository) -> Iterator[Fault]:
    ref = obj.spec.ref
    given = refs.given(ref, ("digest", "semver", "tag"))
    yield from refs.overruled(given)
    unused = ref and ref.semver_filter and given[:1] != ["semver"]
    yield from when(unused, "spec.ref.semverFilter", "it has no effect without spec.ref.semver")


def _unused(obj: OCIRepository) -> Iterator[Fault]:
    spec = obj.spec
    why = "it has no effect beside spec.secretRef"
    lent = spec.provider != "generic" and spec.secret_ref is not None
    yield from when(lent, "spec.provider", why, spec.provider)
    kept = spec.layer_selector and spec.layer_selector.operation == "copy" and spec.ignore
    yield from when(kept, "spec.ignore", "it has no effect with layerSelector.operation 'copy'")


RULES: Final[tuple[Rule[OCIRepository], ...]] = (
    Rule(
        name="oci-url",
        fields=("spec.url",),
        demands="it names a repository in a registry, without tag, digest or user",
        remedy="write it as oci://<host>/<name>, in lower case; tag and digest go to spec.ref",
        find=_url,
    ),
    Rule(
        name="oci-reference",
        fields=("spec.ref.tag", "spec.ref.digest"),
        demands="it is a tag or a digest that a registry can have",
        remedy="a tag has at most 128 letters, digits, '.', '_', '-'; a digest is sha256:<hex>",
        find=_reference,
    ),
    refs.RANGE,
    Rule(
        name="semver-filter",
        fields=("spec.ref.semverFilter",),
        demands="it is a regular expression of RE2",
        remedy=patterns.REMEDY,
        find=_filter,
    ),
    refs.unused(_overruled, "tag", "semver", "semverFilter"),
    fetching.LENT,
    fetching.INSECURE,
    Rule(
        name="field-unused",
        fields=("spec.provider", "spec.ignore"),
        demands="it is looked at",
        remedy="remove it, or the field that makes it ineffective",
        find=_unused,
        refuses=False,
    ),
    *signing.RULES,
    fetching.IGNORE,
    *schedule.rules("interval", "timeout"),
)

CHECKS: Final = Checks(
    kind=OCI_REPOSITORY,
    rules=RULES,
    names=(
        Named(path="spec.secretRef", kind="Secret"),
        Named(path="spec.certSecretRef", kind="Secret"),
        Named(path="spec.proxySecretRef", kind="Secret"),
        Named(path="spec.verify.secretRef", kind="Secret"),
        Named(path="spec.verify.trustedRootSecretRef", kind="Secret"),
        Named(path="spec.serviceAccountName", kind="ServiceAccount"),
    ),
)
