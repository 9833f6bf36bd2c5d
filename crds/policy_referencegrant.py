"""``policy.penstock.dev/v1alpha1``: ReferenceGrant, who may refer to objects of a namespace.

Shaped as Gateway API's kind of the same name, and as there it lives with the target: only who may
write to a namespace can open it. One addition: ``*`` as namespace means every one.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct, field

from crds import meta
from crds import policy_parts as parts

GROUP: Final = parts.GROUP
EVERY: Final = "*"
"""As namespace of ``from``: every namespace."""

Group: TypeAlias = Annotated[
    str, Meta(max_length=253, pattern=r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[-a-z0-9]+)*$")
]
KindName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=63, pattern=r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")
]


class ReferenceGrantFrom(meta.ApiStruct, frozen=True, kw_only=True):
    """Objects that may refer to the targets."""

    group: Group
    """API group of the objects that refer, e.g. `kustomize.toolkit.fluxcd.io`."""
    kind: KindName
    """Kind of the objects that refer, e.g. `Kustomization`."""
    namespace: Annotated[
        str,
        Meta(min_length=1, max_length=63, pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$"),
    ]
    """Namespace of the objects that refer. `*` is every namespace."""


class ReferenceGrantTo(meta.ApiStruct, frozen=True, kw_only=True):
    """Targets, in the namespace of the grant."""

    group: Group
    """API group of the targets, e.g. `source.toolkit.fluxcd.io`; empty for the core group."""
    kind: KindName
    """Kind of the targets, e.g. `GitRepository`."""
    name: Annotated[str, Meta(max_length=253)] = ""
    """Name of the one target. With none, every object of the kind in this namespace."""


class ReferenceGrantSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Who may refer to what: each of `from` to each of `to`. Grants add up."""

    from_: Annotated[list[ReferenceGrantFrom], Meta(min_length=1, max_length=64)] = field(
        name="from"
    )
    """Objects that may refer to the targets."""
    to: Annotated[list[ReferenceGrantTo], Meta(min_length=1, max_length=64)]
    """Targets that they may refer to."""


class ReferenceGrant(Struct, frozen=True, kw_only=True, rename="camel"):
    """Allows objects of other namespaces to refer to objects of this one.

    Without a grant no object of another namespace is read. Deleting a grant ends the use at once;
    what was applied stays.
    """

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "ReferenceGrant"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ReferenceGrantSpec
