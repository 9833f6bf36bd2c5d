"""Register the conversion webhook in CRDs as soon as this process answers.

``spec.conversion`` of a CRD names what converts between its versions. The shipped CRDs name
nothing: then the API server only changes ``apiVersion``, which is correct for all versions but a
few (``crds.manifest``). One replica at a time sets the webhook and its certificate authority, and
``certs.injection`` updates the authority. The replica reverts changes, and applying the CRDs again
does not change the field. A CRD that was replaced by the shipped one (``kubectl replace``) cannot
be told from one whose conversion an administrator removed on purpose. It is registered again,
because objects that need conversion would be stored wrongly otherwise. To remove the conversion on
purpose, set an annotation, as ``disarm`` does: such a CRD is left alone until another replica takes
the lease or this one restarts.

Only kinds whose versions need conversion are registered, so old versions of other kinds do not
depend on this process. Objects in the stored version never do. If a kind needed conversion in an
earlier release, its definition still names the webhook, so it is released. When Penstock's
namespace is deleted, the API server is told to change only ``apiVersion`` again, before the pods
end.
"""

import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from certs import injection
from crds import manifest
from crds.kind import Kind
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.settling import Settling
from toolkit.objects import Json
from webhooks import metrics
from webhooks.configuration import NAME, Target

logger = logging.getLogger(__name__)

PATH: Final = "/convert"
DISARMED: Final = "webhooks.penstock.dev/disarmed"
"""Annotation of a CRD: it is not armed again by the replica that leads when it appears."""
MANAGER: Final = "penstock-webhook"
_SELECTOR: Final = "app.kubernetes.io/instance=penstock-system"


class Definitions:
    """Keeps ``spec.conversion`` in place while this replica leads."""

    def __init__(
        self,
        client: Client,
        kinds: Sequence[Kind[Struct]],
        target: Target,
        *,
        bundle: Callable[[], bytes],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._names = {kind.crd_name for kind in kinds if kind.converted}
        self._others = {kind.crd_name for kind in kinds} - self._names
        self._target = target
        self._bundle = bundle
        self._ready = ready
        self._disarmed: set[str] = set()
        self._settling = Settling(
            client, namespace=target.namespace, failure="conversion not armed"
        )
        self._definitions = Informer(
            client,
            injection.DEFINITION,
            decode=_DECODER.decode,
            label_selector=_SELECTOR,
        )
        self._definitions.subscribe(self._changed)

    async def run(self) -> None:
        """Arm, and keep armed until cancelled."""
        await self._ready()
        await self._settling.run(
            (self._definitions,),
            settle=self._settle,
            leave=lambda: disarm(self._client, self._kinds),
        )

    async def _settle(self) -> None:
        for key, found in list(self._definitions.items().items()):
            wanted = key.name in self._names - self._disarmed
            if wanted and not self._asked(found):
                await self._arm(key.name)
            elif self._left(key.name, found):
                await self._release(key.name)
        metrics.ARMED.labels(injection.DEFINITION.kind).set(0 if self._disarmed else 1)

    def _asked(self, found: "_Definition") -> bool:
        """Tell whether the API server asks us; which authority it trusts is the injector's."""
        held = found.spec.conversion.webhook
        if found.spec.conversion.strategy != "Webhook" or held is None:
            return False
        wanted = self._target.client_config(PATH)
        config = {key: value for key, value in held.client_config.items() if key != "caBundle"}
        return (
            config == wanted
            and bool(held.client_config.get("caBundle"))
            and found.metadata.labels.get(injection.LABEL) == NAME
        )

    def _left(self, name: str, found: "_Definition") -> bool:
        """Tell whether a CRD names our webhook although its kind needs no conversion."""
        ours = found.metadata.labels.get(injection.LABEL) == NAME
        return name in self._others and ours and found.spec.conversion.strategy == "Webhook"

    async def _release(self, name: str) -> None:
        body = {"metadata": {"labels": {injection.LABEL: None}}, "spec": _RELABELLED}
        try:
            await _patch(self._client, name, body)
        except NotFoundError:
            return
        logger.info("conversion left to the API server", extra={"definition": name})

    async def _arm(self, name: str) -> None:
        bundle = base64.b64encode(self._bundle()).decode()
        config = {"service": None, "url": None} | self._target.client_config(PATH, bundle)
        body = {
            "metadata": {
                "labels": {injection.LABEL: NAME},
                "annotations": {DISARMED: None},
            },
            "spec": {"conversion": manifest.conversion(config)},
        }
        try:
            await _patch(self._client, name, body)
        except NotFoundError:
            return
        logger.info("conversion armed", extra={"definition": name})

    def _changed(self, change: "Change[_Definition]") -> None:
        if change.new is None or self._settling.leaving:
            return
        if self._left(change.key.name, change.new):
            self._settling.wake()
        if change.key.name not in self._names:
            return
        # If it was disarmed before we led, this may have been meant for the earlier leader.
        if change.new.disarmed and change.old is not None and not change.old.disarmed:
            self._disarmed.add(change.key.name)
            logger.error(
                "conversion disarmed: somebody annotated the definition; restart to arm again",
                extra={"definition": change.key.name, "annotation": DISARMED},
            )
        elif not change.new.disarmed:
            self._disarmed.discard(change.key.name)
        if not self._asked(change.new):
            self._settling.wake()


async def disarm(client: Client, kinds: Sequence[Kind[Struct]]) -> None:
    """Make the API server convert by changing ``apiVersion``; used when the process is removed.

    Raises:
        ApiError: a CRD could not be changed.
    """
    for kind in kinds:
        if kind.converted:
            try:
                await _patch(client, kind.crd_name, _NOBODY)
            except NotFoundError:
                continue
            logger.info("conversion disarmed", extra={"definition": kind.crd_name})
    metrics.ARMED.labels(injection.DEFINITION.kind).set(0)


_RELABELLED: Final[Json] = {"conversion": {"strategy": "None", "webhook": None}}
_NOBODY: Final[Json] = {
    "metadata": {"labels": {injection.LABEL: None}, "annotations": {DISARMED: "true"}},
    "spec": _RELABELLED,
}


async def _patch(client: Client, name: str, body: Json) -> None:
    await client.patch(injection.DEFINITION, name, "", body, strategy="merge", manager=MANAGER)


class _Meta(Struct):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Webhook(Struct, rename="camel"):
    client_config: dict[str, Any] = {}


class _Conversion(Struct):
    strategy: str = "None"
    webhook: _Webhook | None = None


class _Spec(Struct):
    conversion: _Conversion = msgspec.field(default_factory=_Conversion)


class _Definition(Struct):
    metadata: _Meta
    spec: _Spec

    @property
    def disarmed(self) -> bool:
        return DISARMED in self.metadata.annotations


_DECODER: Final = msgspec.json.Decoder(_Definition)
