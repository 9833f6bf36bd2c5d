"""Evaluate the gate's rules for all objects at once. Pure.

Validation is ``webhooks.validation``; references to other namespaces are ``toolkit.policy``'s. An
object in an old version is judged in the stored one, as in the gate. Rules that depend on
permissions of a user, or on policies of a cluster, are left out.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from cli.check import fieldnames, schemarules
from cli.check.subjects import Subject
from crds import KINDS, REFERENCE_GRANT
from crds.conversion import ConversionError, Converter
from crds.policy_referencegrant import ReferenceGrant
from toolkit.expressions import evaluator
from toolkit.native import calls
from toolkit.objects import Json, ObjectRef, gvk_of
from toolkit.policy import references, remedies
from toolkit.policy.references import BlockedError, References
from webhooks.validation import circles, verdict
from webhooks.validation.admission import BY_KIND, judged
from webhooks.validation.circles import Seen, Waiter
from webhooks.validation.rule import Checks, Judges

_CONVERTER: Final = Converter(KINDS)
_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem that would be refused, or, if not ``refused``, cause a warning.

    ``message`` does not begin with the field. ``target`` is the object that a ReferenceGrant would
    allow.
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
        """Return the properties that similar findings share, other than object and place."""
        place = _INDEX.sub("[]", self.field)
        told = str(self.target) if self.target else _INDEX.sub("[]", self.message)
        return not self.refused, self.rule, self.subject.ref.gvk.kind, place, told


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Evaluates rules with the grants, and with the flags of the installation."""

    policy: References

    def judge(self, found: Sequence[Subject]) -> list[Finding]:
        """Return the findings for these objects, in their order, except those of the engine."""
        stored = [_stored(subject) for subject in found]
        waiting = _waiting(stored)
        return [
            finding
            for each in stored
            for finding in (*_validated(each, waiting), *self._referred(each.subject))
        ]

    def _referred(self, subject: Subject) -> Iterator[Finding]:
        named = references.references(subject.obj, subject.ref.namespace)
        known = (each for each in named if "${" not in str(each.target))
        for reference, error in self.policy.denials(subject.ref, known):
            blocked = isinstance(error, BlockedError)
            yield Finding(
                subject=subject,
                field=reference.path,
                rule="cross-namespace-refs" if blocked else "reference-grant",
                message=str(error),
                remedy=_BLOCKED if blocked else _GRANT,
                refused=self.policy.refuses(error),
                target=None if blocked else reference.target,
            )


_GRANT: Final = f"apply the ReferenceGrant, see {remedies.PAGE}"
_BLOCKED: Final = f"refer to an object of the own namespace, see {remedies.LOCKED_PAGE}"


async def judge(policy: References, found: Sequence[Subject]) -> list[Finding]:
    """Return the findings for these objects, in their order.

    Workers of the engine start only if a text or a rule needs them.
    """
    findings = Judge(policy=policy).judge(found)
    async with contextlib.AsyncExitStack() as stack:
        engine, evaluates = calls.start(size=1), evaluator.start()
        stack.push_async_callback(engine.close)
        stack.push_async_callback(evaluates.close)
        judges = Judges(engine=engine, evaluates=evaluates)
        for subject in found:
            findings += await _judged(_stored(subject), judges)
    order = {id(subject): number for number, subject in enumerate(found)}
    return sorted(findings, key=lambda each: order[id(each.subject)])


def granted(found: Iterable[Subject], shipped: Iterable[Json]) -> dict[str, list[ReferenceGrant]]:
    """Return the grants among the objects, and those shipped, by namespace."""
    kind = (REFERENCE_GRANT.group, REFERENCE_GRANT.kind)
    written = [each.obj for each in found if gvk_of(each.obj).group_kind == kind]
    grants: dict[str, list[ReferenceGrant]] = {}
    for obj in (*shipped, *written):
        try:
            grant = msgspec.convert(obj, ReferenceGrant)
        except msgspec.ValidationError:
            continue  # It would be refused, which is reported separately.
        grants.setdefault(grant.metadata.namespace, []).append(grant)
    return grants


def remedy(found: Iterable[Finding]) -> list[Json]:
    """Return the ReferenceGrants that would allow the denied references."""
    return remedies.merged((each.subject.ref, each.target) for each in found if each.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A subject in the stored version, and whether the model ``fits`` it.

    ``obj`` is None if there is nothing to validate; ``problem`` may have the reason.
    """

    subject: Subject
    checks: Checks[Any]
    obj: Json | None = None
    fits: bool = False
    problem: str = ""


def _stored(subject: Subject) -> _Stored:
    """Convert and decode a subject."""
    checks = BY_KIND[gvk_of(subject.obj).group_kind]
    if subject.partial:  # The values of its variables are unknown.
        return _Stored(subject=subject, checks=checks)
    try:
        obj = _CONVERTER.convert(subject.obj, checks.kind.api_version)
    except ConversionError as exc:
        return _Stored(subject=subject, checks=checks, problem=str(exc))
    return _Stored(subject=subject, checks=checks, obj=obj, fits=_fits(obj, checks))


def _fits(obj: Json, checks: Checks[Any]) -> bool:
    try:
        msgspec.convert(obj, checks.kind.model)
    except msgspec.ValidationError:
        return False
    return True


def _validated(stored: _Stored, waiting: Mapping[Waiter, Seen]) -> Iterator[Finding]:
    subject, checks = stored.subject, stored.checks
    if stored.problem:
        yield Finding(
            subject=subject,
            field="apiVersion",
            rule="version-unknown",
            message=stored.problem.removeprefix(f"{subject.ref}: apiVersion: "),
            remedy=f"write apiVersion: {checks.kind.api_version}",
        )
    if stored.obj is None:
        return
    yield from _misnamed(subject, stored.obj)
    if stored.fits:
        found = [
            *verdict.findings(checks, stored.obj),
            *_in_circles(subject, checks, stored.obj, waiting),
        ]
    else:
        # The schema comes first: rules about the form of fields need objects that fit it.
        bare = replace(checks, names=(), namespaces=(), patterns=(), selectors=())
        found = verdict.findings(bare, stored.obj)
    for each in found:
        yield _shown(subject, each)


async def _judged(stored: _Stored, judges: Judges) -> list[Finding]:
    """Return the findings about texts that the engine parses, if the object fits its schema."""
    if stored.obj is None or not stored.fits:
        return []
    found = await judged(judges, stored.checks, stored.obj)
    unmet = await schemarules.broken(judges.evaluates, stored.obj)
    return [
        *(_shown(stored.subject, each) for each in found),
        *(_unmet(stored, each) for each in unmet),
    ]


def _unmet(stored: _Stored, broken: schemarules.Broken) -> Finding:
    return Finding(
        subject=stored.subject,
        field=broken.field,
        rule="schema-rule",
        message=broken.message,
        remedy=f"see docs/api/{stored.checks.kind.group}.md",
    )


def _shown(subject: Subject, each: verdict.Finding) -> Finding:
    return Finding(
        subject=subject,
        field=each.fault.field,
        rule=each.rule.name,
        message=each.fault.shown.removeprefix(each.fault.field).removeprefix(": ").strip(),
        remedy=each.rule.remedy,
        refused=each.rule.refuses,
    )


def _misnamed(subject: Subject, obj: Json) -> Iterator[Finding]:
    """Find fields that the kind does not have."""
    kind = subject.ref.gvk.kind
    for path, similar in fieldnames.unknown(obj):
        yield Finding(
            subject=subject,
            field=path,
            rule="unknown-field",
            message=f"{kind} has no such field",
            remedy=f"write '{similar}', or remove it" if similar else "remove it",
        )


def _in_circles(
    subject: Subject, checks: Checks[Any], obj: Json, waiting: Mapping[Waiter, Seen]
) -> list[verdict.Finding]:
    if checks.circle is None:
        return []
    # For objects of a Kustomization the gate only warns, as it may apply the others too.
    rule = replace(checks.circle, refuses=subject.by is None)
    return [verdict.Finding(rule, fault) for fault in circles.find(obj, waiting.get)]


def _waiting(found: Iterable[_Stored]) -> dict[Waiter, Seen]:
    """Return the dependencies of all objects."""
    return {
        Waiter(each.subject.ref.gvk.kind, each.subject.ref.key): circles.seen(each.obj)
        for each in found
        if each.checks.circle is not None and each.obj is not None and each.fits
    }
