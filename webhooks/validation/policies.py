"""Rules for the kinds of ``policy.penstock.dev``: they must be able to match something."""

from collections.abc import Iterator
from typing import Final, TypeVar

from crds import (
    IMAGE_VERIFICATION_POLICY,
    PROVENANCE_POLICY,
    REFERENCE_GRANT,
    SOURCE_POLICY,
)
from crds.policy_image import ImageVerificationPolicy
from crds.policy_provenance import ProvenancePolicy
from crds.policy_referencegrant import ReferenceGrant
from crds.policy_source import SourcePolicy
from toolkit.policy import references, tenancy, urls
from webhooks.validation.rule import Checks, Fault, Find, Named, Rule, when

T = TypeVar("T")

_HOLDERS: Final = frozenset(field.holder for field in references.REFERENCES)
_GROUPS: Final = frozenset(field.group for field in references.REFERENCES)


def _useless(obj: ReferenceGrant) -> Iterator[Fault]:
    for number, holder in enumerate(obj.spec.from_):
        field = f"spec.from[{number}]"
        kind = (holder.group, holder.kind)
        why = "no reference of this kind leaves its namespace"
        yield from when(kind not in _HOLDERS, f"{field}.kind", why, holder.kind)
        own = holder.namespace == obj.metadata.namespace
        why = "the grant's own namespace needs none"
        yield from when(own, f"{field}.namespace", why, holder.namespace)
    for number, target in enumerate(obj.spec.to):
        why = "nothing refers to objects of this group across namespaces"
        unknown = target.group not in _GROUPS
        yield from when(unknown, f"spec.to[{number}].group", why, target.group)


def _unmatched(field: str, given: list[str]) -> Iterator[Fault]:
    for number, pattern in enumerate(given):
        # A wildcard for the scheme is not parsed further.
        if "*" in pattern.partition("://")[0]:
            continue
        try:
            canonical = urls.canonical_pattern(pattern)
        except urls.UnclearURLError as exc:
            yield Fault(f"{field}[{number}]", f"no URL matches it: {exc}")
            continue
        different = canonical != pattern.rstrip("/")
        why = f"no URL matches it: they are compared in the form of '{canonical}'"
        yield from when(different, f"{field}[{number}]", why)


def _allowed(obj: SourcePolicy) -> Iterator[Fault]:
    for number, source in enumerate(obj.spec.sources):
        yield from _unmatched(f"spec.sources[{number}].urls", source.urls)


def _origins(obj: ProvenancePolicy) -> Iterator[Fault]:
    for number, origin in enumerate(obj.spec.origins):
        if origin.source:
            yield from _unmatched(f"spec.origins[{number}].source.urls", origin.source.urls)


def _reachable(obj: ProvenancePolicy) -> Iterator[Fault]:
    """Yield the operators whose account somebody else may be able to use.

    Rights in a namespace change at any time, and every authorizer of the cluster may give them. So
    the answer cannot be known here, and the author of the policy is told the condition.
    """
    for number, operator in enumerate(obj.spec.operators):
        why = (
            "every user who may create Pods, workloads or tokens of ServiceAccounts, or read "
            f"Secrets, in namespace '{operator.namespace}' (as with the role 'edit') can write as "
            "this account, and is not bound by the policy"
        )
        others = operator.namespace not in _CLUSTERS_OWN
        yield from when(others, f"spec.operators[{number}]", why, operator.service_account_name)


def _loose(obj: SourcePolicy | ImageVerificationPolicy) -> Iterator[Fault]:
    selector = obj.spec.namespace_selector
    if selector is None:
        return
    keys = (*selector.match_labels, *(each.key for each in selector.match_expressions))
    for key in dict.fromkeys(keys):
        free = key != _NAME and not key.startswith(tenancy.PROTECTED)
        why = f"any user who may label a namespace can exempt it from the policy by '{key}'"
        yield from when(free, "spec.namespaceSelector", why, key)


_NAME: Final = "kubernetes.io/metadata.name"
_CLUSTERS_OWN: Final = frozenset({"kube-system"})
"""Namespaces in which only administrators have rights."""
_FREE_LABEL: Final = Rule(
    name="free-label",
    fields=("spec.namespaceSelector",),
    demands="only users who may change policies can change the labels that it selects by",
    remedy=f"select by {_NAME}, or by labels that begin with {tenancy.PROTECTED}",
    find=_loose,
    refuses=False,
)


def _url_pattern(field: str, find: Find[T]) -> Rule[T]:
    return Rule(
        name="url-pattern",
        fields=(field,),
        demands="URLs in their canonical form can match it",
        remedy="write it with a lower-case host, without user, default port, '..', ';' or query",
        find=find,
        refuses=False,
    )


GRANT: Final[Checks[ReferenceGrant]] = Checks(
    kind=REFERENCE_GRANT,
    rules=(
        Rule(
            name="grant-without-use",
            fields=("spec.from[]", "spec.to[]"),
            demands="there are references that it could allow",
            remedy="see docs/tenancy.md for the references that exist",
            find=_useless,
            refuses=False,
        ),
    ),
)
SOURCE: Final[Checks[SourcePolicy]] = Checks(
    kind=SOURCE_POLICY,
    rules=(
        _url_pattern("spec.sources[].urls[]", _allowed),
        _FREE_LABEL,
    ),
    patterns=(
        "spec.sources[].verify.cosign.identities[].issuer",
        "spec.sources[].verify.cosign.identities[].subject",
    ),
    selectors=("spec.namespaceSelector",),
)
PROVENANCE: Final[Checks[ProvenancePolicy]] = Checks(
    kind=PROVENANCE_POLICY,
    rules=(
        _url_pattern("spec.origins[].source.urls[]", _origins),
        Rule(
            name="operator-account",
            fields=("spec.operators[]",),
            demands="only administrators have rights in the namespace of the account",
            remedy="keep tenants out of that namespace, and list in resources what it must write",
            find=_reachable,
            refuses=False,
        ),
    ),
    patterns=("spec.origins[].revision", "spec.origins[].verifiedBy"),
    selectors=("spec.namespaceSelector",),
)
IMAGE: Final[Checks[ImageVerificationPolicy]] = Checks(
    kind=IMAGE_VERIFICATION_POLICY,
    rules=(_FREE_LABEL,),
    names=(
        Named(path="spec.verifiers[].cosign.secretRef"),
        Named(path="spec.verifiers[].cosign.trustedRootSecretRef"),
        Named(path="spec.verifiers[].notation.secretRef"),
        Named(path="spec.registry.secretRef"),
        Named(path="spec.registry.certSecretRef"),
    ),
    patterns=(
        "spec.verifiers[].cosign.identities[].issuer",
        "spec.verifiers[].cosign.identities[].subject",
    ),
    selectors=("spec.namespaceSelector",),
)
