"""The structs that ``KustomizationSpec`` is made of: patches, variables, keys, health.

They are the same in every version of the group unless that version's module says otherwise.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, field

from crds import meta


class DependencyReference(meta.ApiStruct, frozen=True, kw_only=True):
    """An object that must be ready first."""

    SCHEMA: ClassVar[meta.Extensions] = meta.ATOMIC

    kind: Annotated[
        Literal["Kustomization", "HelmRelease"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "Kustomization"
    """Kind of the object."""
    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object. Defaults to that of the Kustomization that depends on it."""
    ready_expr: str = ""
    """CEL expression over `self` and `dep` that tells whether the dependency is met, e.g.
    `dep.metadata.labels['app/version'] == self.metadata.labels['app/version']`. Replaces the
    built-in check for Ready at the current generation."""


class Selector(meta.ApiStruct, frozen=True, kw_only=True):
    """Selects objects of the build; fields that are empty match everything."""

    group: str = ""
    """API group. Names are anchored regular expressions here and below."""
    version: str = ""
    """API version."""
    kind: str = ""
    """Kind."""
    namespace: str = ""
    """Namespace."""
    name: str = ""
    """Name."""
    annotation_selector: str = ""
    """Label-selector expression over the annotations."""
    label_selector: str = ""
    """Label-selector expression over the labels."""


class Patch(meta.ApiStruct, frozen=True, kw_only=True):
    """A strategic-merge or JSON 6902 patch, told apart by its form."""

    patch: str
    """The patch as YAML or JSON: an object to merge, or a list of operations."""
    target: Selector | None = None
    """Objects to patch. Required for a list of operations; an object to merge names its own target
    where this is not set."""


class Json6902(meta.ApiStruct, frozen=True, kw_only=True):
    """One operation of RFC 6902."""

    op: Literal["test", "remove", "add", "replace", "move", "copy"]
    """What to do."""
    path: str
    """JSON pointer to the place to change."""
    from_: str = field(name="from", default="")
    """JSON pointer to move or copy from."""
    value: meta.Json = UNSET
    """Value to add, replace by or test for."""


class Json6902Patch(meta.ApiStruct, frozen=True, kw_only=True):
    """A list of operations and the objects that they change."""

    patch: list[Json6902]
    """Operations, in order."""
    target: Selector
    """Objects to patch."""


class Image(meta.ApiStruct, frozen=True, kw_only=True):
    """Replaces one image wherever it appears in the build."""

    name: str
    """Image name to look for, without tag."""
    new_name: str = ""
    """Name to put in its place."""
    new_tag: str = ""
    """Tag to put in its place. Ignored where digest is set."""
    digest: str = ""
    """Digest to pin the image to, instead of a tag."""


class CommonMetadata(meta.ApiStruct, frozen=True, kw_only=True):
    """Metadata for every applied object."""

    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations to set."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels to set."""


class SubstituteReference(meta.ApiStruct, frozen=True, kw_only=True):
    """A ConfigMap or Secret whose keys are variables."""

    SCHEMA: ClassVar[meta.Extensions] = meta.ATOMIC

    kind: Literal["Secret", "ConfigMap"]
    """Kind of the object that holds the variables."""
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    """Name of the object, in the namespace of the Kustomization."""
    optional: Annotated[bool, Meta(extra_json_schema={"default": False})] = False
    """Go on when the object does not exist. Otherwise its absence is an error."""


class PostBuild(meta.ApiStruct, frozen=True, kw_only=True):
    """Variables for `${name}` expressions in the built objects, with bash's string forms."""

    substitute: dict[str, str] = field(default_factory=dict)
    """Variables by name. They win over substituteFrom."""
    substitute_from: list[SubstituteReference] = field(default_factory=list)
    """ConfigMaps and Secrets to take variables from; later ones win. Give such an object the label
    reconcile.fluxcd.io/watch=Enabled to have a change acted upon at once."""
    substitute_strategy: Annotated[
        Literal["WithVariables", "Always"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "WithVariables"
    """`WithVariables` substitutes only when at least one variable is given, `Always` substitutes in
    any case, so that defaults such as `${name:=value}` take effect."""


class Decryption(meta.ApiStruct, frozen=True, kw_only=True):
    """How to decrypt encrypted manifests."""

    provider: Literal["sops"]
    """Format of the encrypted documents."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with the private keys: `*.agekey` for age, `*.asc` for OpenPGP, `sops.…` for cloud key
    services. Without it the identity below is used."""
    service_account_name: str = ""
    """ServiceAccount whose workload identity signs in at cloud key services. Defaults to the
    controller's --default-decryption-service-account."""


class CustomHealthCheck(meta.ApiStruct, frozen=True, kw_only=True):
    """Tells health for one kind by CEL expressions over the object.

    They are evaluated in the order inProgress, failed, current; none true means in progress.
    """

    api_version: str
    """API version of the objects, e.g. `example.com/v1`."""
    kind: str = ""
    """Kind of the objects. When empty, all kinds of the API version."""
    current: str
    """True when the object is as its spec asks and works."""
    failed: str = ""
    """True when the object will not get well by itself; waiting then ends early."""
    in_progress: str = ""
    """True while the object is on its way."""


class IgnoreRule(meta.ApiStruct, frozen=True, kw_only=True):
    """Fields that this Kustomization leaves to other writers."""

    paths: list[str]
    """JSON pointers to the fields, e.g. `/spec/replicas`."""
    target: Selector | None = None
    """Objects that the rule holds for. Defaults to all."""


class AppliedStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What every version tells of what was applied."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes; -1 before the first look."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, and while they hold Reconciling, Stalled, Healthy."""
    last_applied_revision: str = ""
    """Revision whose objects were all applied, and healthy where that was asked for."""
    last_attempted_revision: str = ""
    """Revision that the last reconcile worked on, whether or not it succeeded."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""
