"""Keep ``caBundle`` right wherever the API server reads whom it may trust on our behalf.

Whatever carries the label ``certs.penstock.dev/inject: <name>`` gets the bundle of that name:
webhook configurations, CRDs that are converted by webhook, APIServices. Nothing but ``caBundle`` is
written, guarded by ``test`` operations, so that a lost race changes nothing; what the watch shows
to be wrong is written again, no matter who did it. Objects that cert-manager injects into are left
alone.

Every replica watches, because a rotation waits until all who trust the old authority trust the new
one too; one writes, because two of different opinions would never end.
"""

import asyncio
import base64
import functools
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from certs import authority
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.workqueue import WorkQueue
from toolkit.objects import GroupVersionKind, Json, ObjectKey

logger = logging.getLogger(__name__)

LABEL: Final = "certs.penstock.dev/inject"
VALIDATING: Final = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"
)
MUTATING: Final = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"
)
DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
API_SERVICE: Final = GroupVersionKind("apiregistration.k8s.io", "v1", "APIService")

_THEIRS: Final = "cert-manager.io/inject-"
_FIRST_DELAY: Final = 0.1
_MAX_DELAY: Final = 30.0


@dataclass(frozen=True, slots=True)
class Slot:
    """One place for a bundle: what it holds, where it is, and what must be true around it."""

    held: bytes
    path: str
    guard: tuple[str, object]


class Injector:
    """Writes one bundle into what asks for it, of these kinds or of all.

    A target that refuses is tried again by itself: it holds up no other.
    """

    def __init__(
        self, client: Client, name: str, *, kinds: Collection[GroupVersionKind] = ()
    ) -> None:
        self._client = client
        self._wanted = b""
        self._queue = WorkQueue(f"inject-{name}", min_delay=_FIRST_DELAY, max_delay=_MAX_DELAY)
        self._watchers: list[Callable[[], None]] = []
        selector = f"{LABEL}={name}"
        self._targets = {
            gvk.kind: Informer(client, gvk, decode=decode, label_selector=selector)
            for gvk, decode in _DECODERS
            if not kinds or gvk in kinds
        }
        for kind, informer in self._targets.items():
            informer.subscribe(functools.partial(self._changed, kind))

    def inject(self, bundle: bytes) -> None:
        """Write this bundle from now on; empty leaves everything as it is."""
        if bundle != self._wanted:
            self._wanted = bundle
            self._ask()

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call ``handler`` when what targets hold has changed."""
        self._watchers.append(handler)

    def held(self, bundle: bytes, *, instead: bytes) -> bool:
        """Tell whether those who trust an authority of ``instead`` trust all of ``bundle`` too.

        A target that trusts none of them loses nothing when we serve what ``bundle`` signs. It may
        be one that we are not allowed to write.
        """
        if not all(informer.synced for informer in self._targets.values()):
            return False
        slots = (
            slot
            for informer in self._targets.values()
            for found in informer.items().values()
            for slot in found
        )
        return all(
            authority.holds(held, bundle)
            for held in {slot.held for slot in slots}
            if authority.shares(held, instead)
        )

    async def watch(self) -> None:
        """Follow the targets until cancelled; every replica does."""
        async with asyncio.TaskGroup() as group:
            for informer in self._targets.values():
                group.create_task(informer.run())

    async def keep(self) -> None:
        """Write what is wrong until cancelled; one replica does."""
        self._ask()
        while True:
            target = (await self._queue.get()).key
            try:
                await self._settle(target)
            finally:
                self._queue.done(target)

    def _ask(self) -> None:
        """Have every target looked at."""
        for kind, informer in self._targets.items():
            for key in informer.items():
                self._queue.add(_target(kind, key), "bundle")

    async def _settle(self, target: ObjectKey) -> None:
        """Write one target if it holds another bundle."""
        informer = self._targets[target.namespace]
        key = ObjectKey("", target.name)
        wrong = [slot for slot in informer.get(key) or () if slot.held != self._wanted]
        if not (self._wanted and wrong) or await self._write(informer.gvk, key, wrong):
            self._queue.forget(target)
        else:
            self._queue.retry(target)

    async def _write(self, gvk: GroupVersionKind, key: ObjectKey, slots: list[Slot]) -> bool:
        encoded = base64.b64encode(self._wanted).decode()
        patch: list[Json] = []
        for slot in slots:
            path, value = slot.guard
            patch.append({"op": "test", "path": path, "value": value})
            patch.append({"op": "add", "path": slot.path, "value": encoded})
        target = {"target": f"{gvk.kind}/{key}"}
        try:
            await self._client.patch(gvk, key.name, "", patch, strategy="json")
        except NotFoundError:
            return True
        except ApiError as exc:
            logger.error("bundle not written", extra={**target, "error": str(exc)})  # noqa: TRY400 - one line
            return False
        logger.info("bundle written", extra=target)
        return True

    def _changed(self, kind: str, change: Change[list[Slot]]) -> None:
        self._queue.add(_target(kind, change.key), "changed")
        for handler in self._watchers:
            handler()


def _target(kind: str, key: ObjectKey) -> ObjectKey:
    """Return how the queue knows a target; none has a namespace."""
    return ObjectKey(kind, key.name)


class _Meta(msgspec.Struct):
    annotations: dict[str, str] = {}

    @property
    def ours(self) -> bool:
        return not any(name.startswith(_THEIRS) for name in self.annotations)


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: bytes = msgspec.field(name="caBundle", default=b"")


class _Webhook(msgspec.Struct, rename="camel"):
    name: str
    client_config: _ClientConfig


class _Configuration(msgspec.Struct):
    metadata: _Meta
    webhooks: list[_Webhook] = []


class _Conversion(msgspec.Struct, rename="camel"):
    client_config: _ClientConfig | None = None


class _Strategy(msgspec.Struct):
    strategy: str = "None"
    webhook: _Conversion | None = None


class _DefinitionSpec(msgspec.Struct):
    conversion: _Strategy = msgspec.field(default_factory=_Strategy)


class _Definition(msgspec.Struct):
    metadata: _Meta
    spec: _DefinitionSpec


class _ServiceSpec(msgspec.Struct):
    group: str = ""
    service: dict[str, object] | None = None
    ca_bundle: bytes = msgspec.field(name="caBundle", default=b"")


class _Service(msgspec.Struct):
    metadata: _Meta
    spec: _ServiceSpec


def _configuration(raw: bytes) -> list[Slot]:
    found = msgspec.json.decode(raw, type=_Configuration)
    return [
        Slot(
            webhook.client_config.ca_bundle,
            f"/webhooks/{index}/clientConfig/caBundle",
            (f"/webhooks/{index}/name", webhook.name),
        )
        for index, webhook in enumerate(found.webhooks)
        if found.metadata.ours
    ]


def _definition(raw: bytes) -> list[Slot]:
    found = msgspec.json.decode(raw, type=_Definition)
    webhook = found.spec.conversion.webhook
    if not found.metadata.ours or webhook is None or webhook.client_config is None:
        return []
    path = "/spec/conversion/webhook/clientConfig/caBundle"
    return [
        Slot(webhook.client_config.ca_bundle, path, ("/spec/conversion/strategy", "Webhook")),
    ]


def _service(raw: bytes) -> list[Slot]:
    found = msgspec.json.decode(raw, type=_Service)
    if not found.metadata.ours or found.spec.service is None:
        return []
    return [Slot(found.spec.ca_bundle, "/spec/caBundle", ("/spec/group", found.spec.group))]


_DECODERS: Final = (
    (VALIDATING, _configuration),
    (MUTATING, _configuration),
    (DEFINITION, _definition),
    (API_SERVICE, _service),
)
