"""Rules for a HelmRepository."""

from collections.abc import Iterator
from typing import Final

from crds import HELM_REPOSITORY
from crds.source_helm import HelmRepository
from toolkit.remote.oci.oci import Repository
from webhooks.validation import fetching, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, when


def _type(obj: HelmRepository) -> Iterator[Fault]:
    spec = obj.spec
    registry = spec.url.startswith("oci://")
    if spec.type == "oci":
        yield from when(not registry, "spec.url", "a repository of type oci begins with oci://")
    else:
        yield from when(registry, "spec.type", "an oci:// URL needs the type oci", spec.type)


def _url(obj: HelmRepository) -> Iterator[Fault]:
    url = obj.spec.url
    if not url.startswith("oci://"):
        yield from when(not fetching.host(url), "spec.url", "it names no host")
    else:
        yield from fetching.registry_url(
            url, lambda text: Repository.parse(f"{text.rstrip('/')}/chart")
        )


def _unused(obj: HelmRepository) -> Iterator[Fault]:
    spec = obj.spec
    why = "it has no effect without type oci"
    if spec.type != "oci":
        yield from when(spec.insecure, "spec.insecure", why)
        yield from when(spec.provider != "generic", "spec.provider", why, spec.provider)
    yield from when(spec.access_from is not None, "spec.accessFrom", "it has no effect")
    unsent = spec.pass_credentials and spec.secret_ref is None
    yield from when(unsent, "spec.passCredentials", "it has no effect without spec.secretRef")


def _passed(obj: HelmRepository) -> Iterator[Fault]:
    spec = obj.spec
    passed = spec.pass_credentials and spec.secret_ref is not None and spec.type != "oci"
    why = "any user who can change the index receives the credentials"
    yield from when(passed, "spec.passCredentials", why)


RULES: Final[tuple[Rule[HelmRepository], ...]] = (
    Rule(
        name="helm-type",
        fields=("spec.type", "spec.url"),
        demands="type oci and a URL with oci:// come together",
        remedy="set spec.type to oci for a registry, else write an http or https URL",
        find=_type,
    ),
    Rule(
        name="helm-url",
        fields=("spec.url",),
        demands="it names a host, and for a registry no tag, digest or user",
        remedy="write it as https://<host>/<path> or oci://<host>/<path>",
        find=_url,
    ),
    fetching.PASSWORD,
    fetching.CLEAR,
    fetching.INSECURE,
    fetching.LENT,
    Rule(
        name="credentials-passed",
        fields=("spec.passCredentials",),
        demands="credentials are sent to the repository's own host alone",
        remedy="remove it unless you trust all hosts that the index may name",
        find=_passed,
        refuses=False,
    ),
    Rule(
        name="field-unused",
        fields=("spec.insecure", "spec.provider", "spec.accessFrom", "spec.passCredentials"),
        demands="it is looked at",
        remedy="remove it",
        find=_unused,
        refuses=False,
    ),
    *schedule.rules("interval", "timeout"),
)

CHECKS: Final = Checks(
    kind=HELM_REPOSITORY,
    rules=RULES,
    names=(
        Named(path="spec.secretRef", kind="Secret"),
        Named(path="spec.certSecretRef", kind="Secret"),
    ),
)
