"""Policies that cannot be read, and so refuse everything that they may govern. Pure.

A definition admits no policy that its model cannot read. But the store may hold what was written
under another definition, such as that of a newer version. If such a policy had no effect, the
namespaces that it protects would be open, and nobody would notice. So a policy of the same name
stands in for it: it keeps the mode, the namespaces, and what it is about, as far as these can be
read, and nothing satisfies it. What cannot be read of them is taken as the strictest value.

A ReferenceGrant that cannot be read grants nothing.
"""

import contextlib
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from crds import misfits
from crds.policy_image import ImageVerificationPolicy, ImageVerificationPolicySpec
from crds.policy_provenance import (
    EVERY,
    ProvenancePolicy,
    ProvenancePolicySpec,
    SelectedResources,
)
from crds.policy_referencegrant import ReferenceGrant, ReferenceGrantSpec
from crds.policy_source import SourcePolicy, SourcePolicySpec
from toolkit.kube import undecoded
from toolkit.kube.undecoded import Undecoded

_REFUSES: Final = "everything that it may govern is refused"
MEANWHILE: Final = MappingProxyType(
    {
        "SourcePolicy": _REFUSES,
        "ProvenancePolicy": _REFUSES,
        "ImageVerificationPolicy": _REFUSES,
        "ReferenceGrant": "it grants nothing",
    }
)
"""By kind, what happens while an object cannot be read; for events."""

_Spec = TypeVar("_Spec", bound=msgspec.Struct)


class UnreadableSourcePolicy(SourcePolicy, frozen=True, kw_only=True):
    """The stand-in for a SourcePolicy; ``unreadable`` says why it allows nothing."""

    unreadable: str


class UnreadableProvenancePolicy(ProvenancePolicy, frozen=True, kw_only=True):
    """The stand-in for a ProvenancePolicy."""

    unreadable: str


class UnreadableImageVerificationPolicy(ImageVerificationPolicy, frozen=True, kw_only=True):
    """The stand-in for an ImageVerificationPolicy."""

    unreadable: str


def why(policy: SourcePolicy | ProvenancePolicy | ImageVerificationPolicy) -> str:
    """Return why nothing satisfies a policy; empty for one that can be read."""
    if isinstance(
        policy,
        UnreadableSourcePolicy | UnreadableProvenancePolicy | UnreadableImageVerificationPolicy,
    ):
        return policy.unreadable
    return ""


def source_policy(found: Undecoded) -> SourcePolicy:
    """Return a SourcePolicy of the same name and namespaces that allows no source."""
    return UnreadableSourcePolicy(
        metadata=undecoded.identity(found),
        spec=_read(found, SourcePolicySpec(sources=[]), "mode", "namespace_selector"),
        unreadable=_told(found, SourcePolicy),
    )


def provenance_policy(found: Undecoded) -> ProvenancePolicy:
    """Return a ProvenancePolicy of the same name, namespaces and resources without origins."""
    everything = SelectedResources(api_groups=[EVERY], resources=[EVERY])
    return UnreadableProvenancePolicy(
        metadata=undecoded.identity(found),
        spec=_read(
            found,
            ProvenancePolicySpec(resources=[everything]),
            *("mode", "namespace_selector", "resources", "scale", "operators", "hint"),
        ),
        unreadable=_told(found, ProvenancePolicy),
    )


def image_policy(found: Undecoded) -> ImageVerificationPolicy:
    """Return an ImageVerificationPolicy of the same name, namespaces and images without keys."""
    return UnreadableImageVerificationPolicy(
        metadata=undecoded.identity(found),
        spec=_read(
            found,
            ImageVerificationPolicySpec(images=["**"], verifiers=[]),
            *("mode", "namespace_selector", "images", "exclude"),
        ),
        unreadable=_told(found, ImageVerificationPolicy),
    )


def grant(found: Undecoded) -> ReferenceGrant:
    """Return a ReferenceGrant of the same name that grants nothing."""
    return ReferenceGrant(
        metadata=undecoded.identity(found), spec=ReferenceGrantSpec(from_=[], to=[])
    )


class _Outline(msgspec.Struct):
    """An object of which the fields of the spec are read one by one."""

    spec: dict[str, msgspec.Raw] = {}


_REMEDY: Final = "correct or delete the policy"
_FAILS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def _told(found: Undecoded, model: type[msgspec.Struct]) -> str:
    """Return why nothing satisfies the policy; its values are not repeated."""
    reason = misfits.told(found.error, None, model)
    return f"the policy cannot be read, so nothing satisfies it: {reason}; {_REMEDY}"


def _read(found: Undecoded, strictest: _Spec, *names: str) -> _Spec:
    """Return the strictest spec, with those of the named fields that can be read.

    A field that the policy does not have keeps its default, where it has one.
    """
    try:
        written = msgspec.json.decode(found.raw, type=_Outline).spec
    except _FAILS:
        return strictest
    known: dict[str, Any] = {}
    for each in msgspec.structs.fields(type(strictest)):
        if each.name not in names:
            continue
        if each.encode_name in written:
            with contextlib.suppress(*_FAILS):
                known[each.name] = msgspec.json.decode(written[each.encode_name], type=each.type)
        elif not each.required:
            known[each.name] = _default(each)
    return msgspec.structs.replace(strictest, **known)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    made: Any = field.default_factory
    return field.default if made is msgspec.NODEFAULT else made()
