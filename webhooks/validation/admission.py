"""The plugin that refuses what could never work. It sends no requests to other processes.

It needs only caches and the object; workers of the engine parse templates and CEL expressions.

It checks only changes of the spec and of the annotations that belong to it. So an object that was
admitted before a rule existed, or while no replica answered, can always be labelled, finalized and
deleted.
"""

import asyncio
from dataclasses import replace
from typing import Any, Final, Self

import msgspec

from toolkit.kube import impersonation, rbac
from toolkit.objects import GroupVersionKind, Json
from webhooks import changes, joint
from webhooks.plugin import Answer, Row, Rule
from webhooks.request import Request
from webhooks.services import Cache, Services
from webhooks.validation import CHECKS, circles, verdict
from webhooks.validation.circles import Seen, Waiter
from webhooks.validation.rule import Checks, Judges
from webhooks.validation.verdict import Finding

_SMALL: Final = 8 << 10
"""Bytes of an object that is checked on the event loop; a larger one takes milliseconds."""

BY_KIND: Final = {checks.kind.gvk[::2]: checks for checks in CHECKS}


class Validation:
    """Judges objects of our kinds by ``CHECKS``."""

    def __init__(self, waiting: dict[str, Cache[Seen]], judges: Judges, *, proven: bool) -> None:
        self._waiting = waiting
        self._judges = judges
        self._proven = proven

    @classmethod
    def make(cls, services: Services) -> Self:
        """Return the plugin with caches of dependencies, and the workers of the engine."""
        return cls(
            {
                checks.kind.kind: services.watch(
                    GroupVersionKind(*checks.kind.gvk),
                    decode=circles.decoder(checks.kind.kind),
                )
                for checks in CHECKS
                if checks.circle
            },
            Judges(engine=services.engine(), evaluates=services.evaluates()),
            proven=services.proven,
        )

    async def review(self, request: Request) -> Answer:
        """Refuse specs that cannot work, with all reasons; warn of probable mistakes."""
        checks, obj, old = BY_KIND.get(request.gvk.group_kind), request.object, request.old
        if checks is None or obj is None or not concerned(request):
            return Answer()
        found = await self._find(checks, obj, request)
        before: list[Finding] = []
        if old is not None and any(finding.rule.refuses for finding in found):
            before = await self._find(checks, old, request)
        return verdict.judge(obj, found, before)

    async def _find(self, checks: Checks[Any], obj: Json, request: Request) -> list[Finding]:
        if len(msgspec.json.encode(obj.get("spec"))) > _SMALL:
            found = await asyncio.to_thread(self._found, checks, obj, request)
        else:
            found = self._found(checks, obj, request)
        return [*found, *await judged(self._judges, checks, obj)]

    def _found(self, checks: Checks[Any], obj: Json, request: Request) -> list[Finding]:
        return [*verdict.findings(checks, obj), *self._circles(checks, obj, request)]

    def _circles(self, checks: Checks[Any], obj: Json, request: Request) -> list[Finding]:
        if checks.circle is None:
            return []
        faults = circles.find(obj, self._seen, proven=self._proven)
        # A Kustomization applies all its objects, so another object of the same apply may break the
        # cycle.
        rule = replace(checks.circle, refuses=False) if applied(request) else checks.circle
        return [Finding(rule, fault) for fault in faults]

    def _seen(self, waiter: Waiter) -> Seen | None:
        known = self._waiting.get(waiter.kind)
        return known.get(waiter.key) if known else None


async def judged(judges: Judges, checks: Checks[Any], obj: Json) -> list[Finding]:
    """Return the findings of the engine."""
    return [
        Finding(each.rule, fault)
        for each in checks.judged
        for fault in await each.find(judges, obj)
    ]


def concerned(request: Request) -> bool:
    """Tell whether a request writes a spec, or an annotation that belongs to it.

    A status does not count, nor an object that is being deleted.
    """
    obj, old = request.object or {}, request.old
    if request.subresource or (obj.get("metadata") or {}).get("deletionTimestamp"):
        return False
    if old is None or obj.get("spec") != old.get("spec"):
        return True
    return changes.annotations(obj) != changes.annotations(old)


def applied(request: Request) -> bool:
    """Tell whether an applier claims to send the request; the claim grants nothing."""
    return f"{impersonation.PREFIX}applier" in request.user.extra


RULES: Final = tuple(
    Rule(
        groups=(checks.kind.group,),
        versions=(checks.kind.version,),
        resources=(checks.kind.plural,),
        scope="Namespaced" if checks.kind.namespaced else "Cluster",
    )
    for checks in CHECKS
)

ROW: Final = Row(
    name="validation",
    rules=RULES,
    make=Validation.make,
    conditions=(changes.SPEC_OR_ANNOTATIONS,),
    webhook=joint.SPECS,
    permissions=tuple(
        rbac.Rule(
            groups=(checks.kind.group,),
            resources=(checks.kind.plural,),
            verbs=("get", "list", "watch"),
        )
        for checks in CHECKS
        if checks.circle
    ),
)
