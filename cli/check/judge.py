"""What the gate would say about objects: its own rules, over all of them at once. Pure.

Validation is ``webhooks.validation``; references to other namespaces are ``toolkit.policy``'s. An
object in an old version is judged in the stored one, as the gate does. What depends on the rights
of a user, or on policies of a cluster, is not judged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from cli.check.subjects import Subject
from crds import KINDS, REFERENCE_GRANT
from crds.conversion import ConversionError, Converter
from crds.policy_referencegrant import ReferenceGrant
from toolkit.objects import Json, ObjectKey, ObjectRef, gvk_of
from toolkit.policy import references, remedies
from toolkit.policy.references import BlockedError, References
from webhooks.validation import circles, verdict
from webhooks.validation.admission import BY_KIND
from webhooks.validation.circles import Seen
from webhooks.validation.rule import Checks

_CONVERTER: Final = Converter(KINDS)
_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that would be refused, or, if not ``refused``, warned of.

    ``message`` begins with no field. ``target`` is what a ReferenceGrant would open.
    """

    subject: Subject
    field: str
    rule: str
    message: str
    remedy: str
    refused: bool = True
    target: ObjectRef | None = None

    @property
    def likeness(self) -> tuple[object, ...]:
        """Return what findings have in common that differ only in the object and its place."""
        place = _INDEX.sub("[]", self.field)
        told = str(self.target) if self.target else _INDEX.sub("[]", self.message)
        return not self.refused, self.rule, self.subject.ref.gvk.kind, place, told


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Knows what is granted; ``cross_namespace`` is false under ``--no-cross-namespace-refs``."""

    grants: Mapping[str, Sequence[ReferenceGrant]]
    cross_namespace: bool = True

    def judge(self, found: Sequence[Subject]) -> list[Finding]:
        """Return what is wrong with these objects, in their order."""
        waiting = _waiting(found)
        return [
            finding
            for subject in found
            for finding in (*_validated(subject, waiting), *self._referred(subject))
        ]

    def _referred(self, subject: Subject) -> Iterator[Finding]:
        policy = References(
            grants=lambda namespace: self.grants.get(namespace, ()),
            cross_namespace=self.cross_namespace,
        )
        named = references.references(subject.obj, subject.ref.namespace)
        known = (each for each in named if "${" not in str(each.target))
        for reference, error in policy.denials(subject.ref, known):
            blocked = isinstance(error, BlockedError)
            yield Finding(
                subject=subject,
                field=reference.path,
                rule="cross-namespace-refs" if blocked else "reference-grant",
                message=str(error),
                remedy=_BLOCKED if blocked else _GRANT,
                target=None if blocked else reference.target,
            )


_GRANT: Final = f"apply the ReferenceGrant, see {remedies.PAGE}"
_BLOCKED: Final = f"refer to an object of the own namespace, see {remedies.LOCKED_PAGE}"


def granted(found: Iterable[Subject], shipped: Iterable[Json]) -> dict[str, list[ReferenceGrant]]:
    """Return the grants among the objects, and those shipped, by namespace."""
    kind = (REFERENCE_GRANT.group, REFERENCE_GRANT.kind)
    written = [each.obj for each in found if gvk_of(each.obj).group_kind == kind]
    grants: dict[str, list[ReferenceGrant]] = {}
    for obj in (*shipped, *written):
        try:
            grant = msgspec.convert(obj, ReferenceGrant)
        except msgspec.ValidationError:
            continue  # it would be refused, and is told so
        grants.setdefault(grant.metadata.namespace, []).append(grant)
    return grants


def remedy(found: Iterable[Finding]) -> list[Json]:
    """Return the ReferenceGrants that would allow what is refused for want of one."""
    return remedies.merged((each.subject.ref, each.target) for each in found if each.target)


def _validated(
    subject: Subject, waiting: Mapping[tuple[str, str], Mapping[ObjectKey, Seen]]
) -> Iterator[Finding]:
    if subject.partial:
        return  # nobody knows what it will say
    kind = gvk_of(subject.obj).group_kind
    checks = BY_KIND[kind]
    try:
        obj = _stored(subject.obj, checks)
    except ConversionError as exc:
        yield Finding(
            subject=subject,
            field="apiVersion",
            rule="version-unknown",
            message=str(exc),
            remedy=f"write apiVersion: {checks.kind.api_version}",
        )
        return
    if _fits(obj, checks):
        known = waiting.get(kind, {})
        found = [*verdict.findings(checks, obj), *_in_circles(subject, checks, obj, known)]
    else:
        # The schema comes first: rules about the shape of fields are asked only of what fits.
        bare = replace(checks, names=(), namespaces=(), patterns=(), selectors=())
        found = verdict.findings(bare, obj)
    for each in found:
        yield Finding(
            subject=subject,
            field=each.fault.field,
            rule=each.rule.name,
            message=each.fault.shown.removeprefix(each.fault.field).removeprefix(": ").strip(),
            remedy=each.rule.remedy,
            refused=each.rule.refuses,
        )


def _stored(obj: Json, checks: Checks[Any]) -> Json:
    """Return an object in the stored version."""
    return _CONVERTER.convert(obj, checks.kind.api_version)


def _fits(obj: Json, checks: Checks[Any]) -> bool:
    try:
        msgspec.convert(obj, checks.kind.model)
    except msgspec.ValidationError:
        return False
    return True


def _in_circles(
    subject: Subject, checks: Checks[Any], obj: Json, waiting: Mapping[ObjectKey, Seen]
) -> list[verdict.Finding]:
    if checks.circle is None:
        return []
    # The gate only warns of what a Kustomization applies, which may bring the rest as well.
    rule = replace(checks.circle, refuses=subject.by is None)
    return [verdict.Finding(rule, fault) for fault in circles.find(obj, waiting.get)]


def _waiting(found: Iterable[Subject]) -> dict[tuple[str, str], dict[ObjectKey, Seen]]:
    """Return who waits for whom, by kind."""
    waiting: dict[tuple[str, str], dict[ObjectKey, Seen]] = {}
    for each in found:
        kind = gvk_of(each.obj).group_kind
        checks = BY_KIND[kind]
        if checks.circle is None or each.partial:
            continue
        try:
            obj = _stored(each.obj, checks)
        except ConversionError:
            continue
        if _fits(obj, checks):
            waiting.setdefault(kind, {})[each.ref.key] = circles.seen(obj)
    return waiting
