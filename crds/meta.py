"""What every kind shares: metadata, conditions, references, durations.

The structs follow the conventions that Flux's APIs follow (``meta/v1`` and apimachinery): a string
that is not set is empty, a nested object that is not set is ``None``. Text below an attribute is
its description in the CRD and in the API reference. Nothing here knows a group or does IO.
"""

import re
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

from crds.rules import Rule

Json: TypeAlias = Any
"""A JSON value that the schema leaves open."""

DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
Duration: TypeAlias = Annotated[str, Meta(pattern=DURATION)]
SHORT_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$"
ShortDuration: TypeAlias = Annotated[str, Meta(pattern=SHORT_DURATION)]
"""Network timeouts: the same, without hours."""

Timestamp: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Count: TypeAlias = Annotated[int, Meta(extra_json_schema={"format": "int64"})]
Namespace: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63)]

Extensions: TypeAlias = dict[str, Json]
"""Schema keywords that the type system does not say."""

ATOMIC: Final[Extensions] = {"x-kubernetes-map-type": "atomic"}
IMPLIED_DEFAULT: Final = "x-penstock-implied-default"
IMPLIED: Final[Extensions] = {IMPLIED_DEFAULT: True}
"""Marks a default that the controller assumes but the API server does not write into objects."""

MESSAGE_LIMIT: Final = 32768
"""Longest condition message that the schema admits (``metav1.Condition``)."""


class ApiStruct(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Settings of every struct, and what its schema needs beside the fields."""

    RULES: ClassVar[tuple[Rule, ...]] = ()
    SCHEMA: ClassVar[Extensions] = {}


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """The part of an object's metadata that controllers read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: list[str] = field(default_factory=list)


class Condition(ApiStruct, frozen=True, kw_only=True):
    """One aspect of an object's state, as ``metav1.Condition``."""

    type: Annotated[
        str,
        Meta(
            max_length=316,
            pattern=(
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
        ),
    ]
    """Aspect that is reported, e.g. Ready, Reconciling or Stalled."""
    status: Literal["True", "False", "Unknown"]
    """Whether the aspect holds."""
    reason: Annotated[
        str,
        Meta(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ]
    """CamelCase word for programs: why the condition last changed."""
    message: Annotated[str, Meta(max_length=MESSAGE_LIMIT)]
    """Sentence for people: what happened, on which object."""
    last_transition_time: Timestamp
    """When the status last changed from one value to another."""
    observed_generation: Annotated[Count, Meta(ge=0)] = 0
    """Generation of the object that the condition was computed from."""


Conditions: TypeAlias = list[Condition]
"""One field to the API server, as in Flux: each entry of a map by ``type`` would be a field of its
own in ``managedFields``, which the API server decodes and compares with each write of a status."""


class LocalObjectReference(ApiStruct, frozen=True, kw_only=True):
    """Names an object in the same namespace."""

    SCHEMA: ClassVar[Extensions] = ATOMIC

    name: str
    """Name of the object."""


class NamespacedObjectReference(ApiStruct, frozen=True, kw_only=True):
    """Names an object, in another namespace where one is given."""

    SCHEMA: ClassVar[Extensions] = ATOMIC

    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object. Defaults to the namespace of the object that refers to it."""


class NamespacedObjectKindReference(ApiStruct, frozen=True, kw_only=True):
    """Names an object of any kind."""

    SCHEMA: ClassVar[Extensions] = ATOMIC

    api_version: str = ""
    """API version, e.g. apps/v1. When empty, the server's preferred version of the kind."""
    kind: str
    """Kind, e.g. Deployment."""
    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object. Defaults to the namespace of the object that refers to it."""


class SecretKeyReference(ApiStruct, frozen=True, kw_only=True):
    """Names one key of a Secret in the same namespace."""

    SCHEMA: ClassVar[Extensions] = ATOMIC

    name: str
    """Name of the Secret."""
    key: str = ""
    """Key in the Secret's data. When empty, the reader's usual keys are tried."""


class KubeConfigReference(ApiStruct, frozen=True, kw_only=True):
    """Tells how to reach another cluster."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.secretRef) != has(self.configMapRef)",
            "exactly one of secretRef or configMapRef must be set",
        ),
    )

    secret_ref: SecretKeyReference | None = None
    """Secret with a whole kubeconfig, by default under the key `value`, else `value.yaml`.
    Programs (exec) and file paths in it are not followed."""
    config_map_ref: LocalObjectReference | None = None
    """ConfigMap that describes a cluster reached by workload identity: `provider`, and as that
    needs `cluster`, `address`, `ca.crt`, `audiences`, `serviceAccountName`."""


class Artifact(ApiStruct, frozen=True, kw_only=True):
    """What a source produced last, and where to get it."""

    digest: Annotated[str, Meta(pattern=r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$")]
    """Digest of the file, as `<algorithm>:<hex>`. Consumers check it before they unpack."""
    last_update_time: Timestamp
    """When this artifact was stored."""
    path: str
    """Path of the file below the storage root, `<kind>/<namespace>/<name>/<file>`."""
    revision: str
    """Upstream revision that the artifact holds, e.g. `main@sha1:<commit>`."""
    url: str
    """Address at which consumers inside the cluster fetch the file."""
    size: Count | None = None
    """Size of the file in bytes."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Facts about the upstream object, such as OCI annotations."""


VERIFIED: Final = "source.penstock.dev/verified"
"""Artifact metadata: who signed what the artifact holds, in words; absent if nobody had to."""

ORIGINS: Final = "source.penstock.dev/origins"
"""Artifact metadata: where the content came from (``toolkit.policy.origins``). Penstock's source
controller writes it with every artifact; an artifact of another source controller has none.
"""

_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
SHORTEST_INTERVAL: Final = 1.0
"""Seconds; a shorter interval in a spec counts as this."""
SHORTEST_TIMEOUT: Final = 0.1
"""Seconds; a shorter timeout in a spec counts as this."""
LONGEST: Final = 2**63 / 1e9
"""Seconds; Go counts durations in nanoseconds, in 64 bits."""
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Return the seconds in a Go duration such as ``1h30m``, ``90s`` or ``1.5m``.

    Takes every unit that Go takes, because v1beta1 objects had no pattern on their durations;
    no sign, because no field means anything by a negative one.

    Raises:
        ValueError: the text is empty or not a duration.
    """
    if text == "0":
        return 0.0
    total, at = 0.0, 0
    while part := _PART.match(text, at):
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not text or at != len(text):
        raise ValueError(f"invalid duration {text!r}")
    return total


def interval_seconds(text: str) -> float:
    """Return the seconds between two passes or attempts that a duration in a spec asks for.

    It is at least ``SHORTEST_INTERVAL``: a shorter one, which the schema of Flux allows, is work
    without a pause.

    Raises:
        ValueError: the text is empty or not a duration.
    """
    return min(max(parse_duration(text), SHORTEST_INTERVAL), LONGEST)


def timeout_seconds(text: str) -> float:
    """Return the seconds of a timeout in a spec, at least ``SHORTEST_TIMEOUT``.

    Raises:
        ValueError: the text is empty or not a duration.
    """
    return min(max(parse_duration(text), SHORTEST_TIMEOUT), LONGEST)


def format_duration(seconds: float) -> str:
    """Return the duration as Go prints it: ``1h0m0s``, ``9m30s``, ``1.2s``, ``750ms``, ``0s``.

    Flux's messages hold durations in this form. Rounded to milliseconds.
    """
    millis = round(seconds * 1000)
    if millis == 0:
        return "0s"
    if millis < 1000:
        return f"{millis}ms"
    minutes, rest = divmod(millis, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if minutes == 0:
        return text
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
