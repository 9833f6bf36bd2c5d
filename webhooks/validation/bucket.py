"""Rules for a Bucket."""

from collections.abc import Iterator
from typing import Final

from crds import BUCKET
from crds.source_bucket import Bucket
from toolkit.remote.objectstore import place
from toolkit.remote.objectstore.place import Place
from webhooks.validation import fetching, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, read, when

_HOST: Final = "bucket.example"


def _endpoint(obj: Bucket) -> Iterator[Fault]:
    spec = obj.spec
    yield from read(
        "spec.endpoint",
        spec.endpoint or " ",
        lambda text: _base(endpoint=text, plain_http=spec.insecure),
        # it may hold a password
        shown="" if "@" in spec.endpoint else spec.endpoint,
    )
    if spec.sts:
        endpoint = spec.sts.endpoint
        shown = "" if "@" in endpoint else endpoint
        yield from read("spec.sts.endpoint", endpoint, _split, shown=shown)


def _names(obj: Bucket) -> Iterator[Fault]:
    name, region = obj.spec.bucket_name, obj.spec.region
    yield from read("spec.bucketName", name or " ", lambda text: _base(bucket=text))
    yield from read("spec.region", region, lambda text: _base(region=text))


def _base(
    *, endpoint: str = _HOST, bucket: str = "x", region: str = "", plain_http: bool = False
) -> str:
    """Read one part of a place, among others that are right."""
    return Place(
        provider="generic", endpoint=endpoint, bucket=bucket, region=region, plain_http=plain_http
    ).base


def _split(text: str) -> object:
    return place.split(text, default="https")


def _sts(obj: Bucket) -> Iterator[Fault]:
    sts = obj.spec.sts
    missing = (
        obj.spec.provider == "generic"
        and obj.spec.secret_ref is None
        and sts is not None
        and sts.secret_ref is None
    )
    yield from when(missing, "spec.sts.secretRef", "it is needed to sign in at the directory")


def _unused(obj: Bucket) -> Iterator[Fault]:
    unused = obj.spec.secret_ref is not None and obj.spec.sts is not None
    yield from when(unused, "spec.sts", "it has no effect beside spec.secretRef")


RULES: Final[tuple[Rule[Bucket], ...]] = (
    Rule(
        name="bucket-endpoint",
        fields=("spec.endpoint", "spec.sts.endpoint"),
        demands="it is a host, with a port if need be, or a URL without user or query",
        remedy="write it as <host>[:<port>]; http:// needs spec.insecure",
        find=_endpoint,
    ),
    Rule(
        name="bucket-name",
        fields=("spec.bucketName", "spec.region"),
        demands="it is a name that a bucket, or a region, can have",
        remedy="write letters, digits, '.', '_' and '-' alone",
        find=_names,
    ),
    Rule(
        name="sts-login",
        fields=("spec.sts.secretRef",),
        demands="the token service ldap gets a user and a password",
        remedy="name a Secret with username and password in spec.sts.secretRef",
        find=_sts,
    ),
    Rule(
        name="field-unused",
        fields=("spec.sts",),
        demands="it is looked at",
        remedy="remove it, or spec.secretRef",
        find=_unused,
        refuses=False,
    ),
    fetching.INSECURE,
    fetching.IGNORE,
    *schedule.rules("interval", "timeout"),
)

CHECKS: Final = Checks(
    kind=BUCKET,
    rules=RULES,
    names=(
        Named(path="spec.secretRef", kind="Secret"),
        Named(path="spec.certSecretRef", kind="Secret"),
        Named(path="spec.proxySecretRef", kind="Secret"),
        Named(path="spec.sts.secretRef", kind="Secret"),
        Named(path="spec.sts.certSecretRef", kind="Secret"),
        Named(path="spec.serviceAccountName", kind="ServiceAccount"),
    ),
)
