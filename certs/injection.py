"""Keep ``caBundle`` right wherever the API server reads whom it may trust on our behalf.

Whatever carries the label ``certs.penstock.dev/inject: <name>`` gets the bundle of that name:
webhook configurations, CRDs that are converted by webhook, APIServices. Nothing but ``caBundle`` is
written, guarded by ``test`` operations, so that a lost race changes nothing; what the watch shows
to be wrong is written again, whoever did it. Objects that cert-manager injects into are left alone.

Every replica watches, because a rotation waits until all targets hold the new authority; one
writes, because two of different opinions would never end.
"""

import asyncio
import base64
import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from certs import authority
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.kube.informer import Change, Informer
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
    """Writes one bundle into what asks for it, of these kinds or of all."""

    def __init__(
        self, client: Client, name: str, *, kinds: Collection[GroupVersionKind] = ()
    ) -> None:
        self._client = client
        self._wanted = b""
        self._dirty = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []
        selector = f"{LABEL}={name}"
        self._targets = [
            Informer(client, gvk, decode=decode, label_selector=selector)
            for gvk, decode in _DECODERS
            if not kinds or gvk in kinds
        ]
        for informer in self._targets:
            informer.subscribe(self._changed)

    def inject(self, bundle: bytes) -> None:
        """Write this bundle from now on; empty leaves everything as it is."""
        if bundle != self._wanted:
            self._wanted = bundle
            self._dirty.set()

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call ``handler`` when what targets hold has changed."""
        self._watchers.append(handler)

    def held(self, bundle: bytes) -> bool:
        """Tell whether every target is known to trust all authorities of ``bundle``."""
        if not all(informer.synced for informer in self._targets):
            return False
        slots = (slot for informer in self._targets for slot in _flat(informer.items().values()))
        return all(authority.holds(held, bundle) for held in {slot.held for slot in slots})

    async def watch(self) -> None:
        """Follow the targets until cancelled; every replica does."""
        async with asyncio.TaskGroup() as group:
            for informer in self._targets:
                group.create_task(informer.run())

    async def keep(self) -> None:
        """Write what is wrong until cancelled; one replica does."""
        delay = _FIRST_DELAY
        self._dirty.set()
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            failed = [not await self._write(*stale) for stale in list(self._stale())]
            if any(failed):
                self._dirty.set()
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                delay = min(2 * delay, _MAX_DELAY)
            else:
                delay = _FIRST_DELAY

    def _stale(self) -> Iterator[tuple[GroupVersionKind, ObjectKey, list[Slot]]]:
        """Yield what holds another bundle."""
        if not self._wanted:
            return
        for informer in self._targets:
            for key, slots in informer.items().items():
                wrong = [slot for slot in slots if slot.held != self._wanted]
                if wrong:
                    yield informer.gvk, key, wrong

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

    def _changed(self, _: Change[list[Slot]]) -> None:
        self._dirty.set()
        for handler in self._watchers:
            handler()


def _flat(found: Iterable[list[Slot]]) -> Iterator[Slot]:
    for slots in found:
        yield from slots


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
