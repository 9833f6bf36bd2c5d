"""The plugin that tells authors what they may have overlooked.

1. A reference to an object that does not exist, or to a Secret or ConfigMap that lacks a key.
2. Another Kustomization that builds the same directory or a part of it: both would own the objects.

It says nothing about an object that the requester may not ``get``, whether it exists or not.
The caller states who the requester is, so the plugin is enabled only if callers prove that they are
API servers (``Row.discloses``). It refuses nothing: it is silent after an error or a timeout, and
requests pass while no replica answers. Appliers get no hints, because no person reads them there.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from crds import KUSTOMIZATION
from toolkit.errors import PenstockError
from toolkit.kube import impersonation, rbac
from toolkit.kube.errors import NotFoundError
from toolkit.kube.secrets import CONFIG_MAP, SECRET
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from webhooks import changes, joint
from webhooks.hints import mentions, shapes
from webhooks.hints.builds import Builds
from webhooks.hints.mentions import Mention
from webhooks.plugin import Answer, Condition, Row
from webhooks.request import Request
from webhooks.services import Cache, Services
from webhooks.validation import circles
from webhooks.validation.admission import BY_KIND, RULES, applied, concerned
from webhooks.validation.rule import Checks
from webhooks.validation.verdict import LONGEST_WARNING

_KUSTOMIZATION: Final = GroupVersionKind(*KUSTOMIZATION.gvk)
_MOST: Final = 12
"""Limit of checked objects per request."""
_SECONDS: Final = 2.0
"""Timeout for all of them: a hint is not worth a longer wait."""


class Hints:
    """Looks around an object that is about to be written."""

    def __init__(self, services: Services, present: Mapping[GroupVersionKind, Cache[Any]]) -> None:
        self._services = services
        self._present = present
        self._builds = Builds(present[_KUSTOMIZATION])

    @classmethod
    def make(cls, services: Services) -> Self:
        """Return the plugin with caches of Penstock's kinds."""
        present: dict[GroupVersionKind, Cache[Any]] = {}
        for gvk, _ in mentions.OURS.values():
            if gvk == _KUSTOMIZATION:
                present[gvk] = services.watch(gvk, decode=circles.decoder(gvk.kind))
            else:
                present[gvk] = services.watch(gvk, decode=_exists, metadata_only=True)
        return cls(services, present)

    async def review(self, request: Request) -> Answer:
        """Allow the request, perhaps with warnings."""
        checks, obj = BY_KIND.get(request.gvk.group_kind), request.object
        if checks is None or obj is None or applied(request) or not concerned(request):
            return Answer()
        if not request.namespace:  # policies of the cluster name nothing that it looks for
            return Answer()
        told: list[str] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                async for line in self._lines(request, checks, obj):
                    told.append(line)  # noqa: PERF401 - results before the deadline count
        return Answer(warnings=tuple(map(_short, told)))

    async def _lines(self, request: Request, checks: Checks[Any], obj: Json) -> Any:
        named = dict.fromkeys(itertools.islice(mentions.mentions(checks, obj), _MOST))
        for mention in named:
            # an answer that does not come is not an answer
            with contextlib.suppress(PenstockError):
                if line := await self._look(request, checks, obj, mention):
                    yield f"{mention.field}: {line}"
        for other, what in self._builds.others(obj):
            with contextlib.suppress(PenstockError):
                if await self._may_get(request, KUSTOMIZATION.plural, _KUSTOMIZATION, other):
                    yield f"spec.sourceRef: Kustomization '{other}' builds {what}"

    async def _look(
        self, request: Request, checks: Checks[Any], obj: Json, mention: Mention
    ) -> str:
        cache = self._present.get(mention.gvk)
        if cache is not None and cache.get(mention.key) is not None:
            return ""
        if not await self._may_get(request, mention.plural, mention.gvk, mention.key):
            return ""
        missing = f"{mention} does not exist"
        if cache is not None:
            return missing
        try:
            if mention.gvk not in {SECRET, CONFIG_MAP}:
                await self._services.client.get(mention.gvk, mention.key.name, request.namespace)
                return ""
            data = await self._services.secrets.data(
                mention.gvk, mention.key.namespace, mention.key.name, reason=""
            )
        except PenstockError as error:
            absent = isinstance(error, NotFoundError) or isinstance(error.__cause__, NotFoundError)
            return missing if absent else ""
        return await asyncio.to_thread(_lack, checks, mention, obj, data.values)

    async def _may_get(
        self, request: Request, plural: str, gvk: GroupVersionKind, key: ObjectKey
    ) -> bool:
        return await self._services.authorize.allowed(
            request.user,
            verb="get",
            group=gvk.group,
            resource=plural,
            namespace=key.namespace,
            name=key.name,
        )


def _exists(_: bytes) -> bool:
    """Return True: only the existence of the object is cached."""
    return True


def _lack(checks: Checks[Any], mention: Mention, obj: Json, data: Mapping[str, bytes]) -> str:
    if mention.data_key and mention.data_key not in data:
        remedy = f"add it, or name another in {mention.key_field}"
        return f"{mention} has no key '{mention.data_key}': {remedy}"
    try:
        model = msgspec.convert(obj, checks.kind.model)
    except msgspec.ValidationError:
        return ""
    why = shapes.problem(checks.kind.kind, mention.path, model, data)
    return f"{mention} is invalid: {why}" if why else ""


def _short(line: str) -> str:
    return line if len(line) <= LONGEST_WARNING else f"{line[: LONGEST_WARNING - 1]}…"


NOT_APPLIED: Final = Condition(
    name="not-applied",
    expression=(
        f"!has(request.userInfo.extra) || !('{impersonation.PREFIX}applier' in "
        "request.userInfo.extra)"
    ),
)

ROW: Final = Row(
    name="hints",
    rules=tuple(rule for rule in RULES if rule.scope == "Namespaced"),
    make=Hints.make,
    conditions=(changes.SPEC, NOT_APPLIED),
    webhook=joint.SPECS,
    timeout=3,
    fail_open=True,
    discloses=True,
    permissions=(
        rbac.Rule(
            groups=("",),
            resources=("secrets", "configmaps", "serviceaccounts"),
            verbs=("get",),
        ),
        *(
            rbac.Rule(groups=(gvk.group,), resources=(plural,), verbs=("get", "list", "watch"))
            for gvk, plural in mentions.OURS.values()
        ),
    ),
)
