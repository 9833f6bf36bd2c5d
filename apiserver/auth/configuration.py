"""The trusted authorities, from the API server's ``extension-apiserver-authentication``.

kube-apiserver writes this ConfigMap itself. During a rollout of its replicas it has the union of
their authorities, so watching it is enough for rotations. If it cannot be parsed, the last valid
configuration stays.

https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from apiserver.auth.authorities import Authorities, BundleError
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey

logger = logging.getLogger(__name__)

KEY: Final = ObjectKey("kube-system", "extension-apiserver-authentication")
_CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
_CLIENTS: Final = "client-ca-file"
_PROXIES: Final = "requestheader-client-ca-file"
_NAMES: Final = msgspec.json.Decoder(tuple[str, ...])


class ConfigurationError(TransientError):
    """The ConfigMap holds what cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """One state of the ConfigMap.

    Names of headers are those configured in the API server, in any case. ``allowed_names`` are
    common names of front proxies; if it is empty, any name is allowed.
    """

    clients: Authorities = field(default_factory=lambda: Authorities(b""))
    proxies: Authorities = field(default_factory=lambda: Authorities(b""))
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    @property
    def bundle(self) -> bytes:
        """Return every authority that a client's certificate may be of (PEM)."""
        return self.clients.bundle + self.proxies.bundle


def decode(config_map: Json) -> Trust:
    """Read the ConfigMap.

    Raises:
        ConfigurationError: a part of it cannot be read; the message names its key.
    """
    data = config_map.get("data") or {}
    return Trust(
        clients=_authorities(data, _CLIENTS),
        proxies=_authorities(data, _PROXIES),
        allowed_names=_names(data, "requestheader-allowed-names"),
        username_headers=_names(data, "requestheader-username-headers"),
        uid_headers=_names(data, "requestheader-uid-headers"),
        group_headers=_names(data, "requestheader-group-headers"),
        extra_prefixes=_names(data, "requestheader-extra-headers-prefix"),
    )


class Configuration:
    """Follows the ConfigMap; ``current`` is None until it has been read once."""

    def __init__(self, client: Client) -> None:
        self.current: Trust | None = None
        self._ready = asyncio.Event()
        self._handlers: list[Callable[[Trust], None]] = []
        self._informer = Informer(
            client,
            _CONFIG_MAP,
            decode=msgspec.json.decode,
            namespace=KEY.namespace,
            field_selector=f"metadata.name={KEY.name}",
        )
        self._informer.subscribe(self._changed)

    def subscribe(self, handler: Callable[[Trust], None]) -> None:
        """Call ``handler`` with every configuration from now on."""
        self._handlers.append(handler)

    async def wait_ready(self) -> None:
        """Wait until it has been read once."""
        await self._ready.wait()

    async def run(self) -> None:
        """Follow it until cancelled."""
        await self._informer.run()

    def _changed(self, change: Change[Json]) -> None:
        if change.new is None:
            logger.error("the authentication ConfigMap is gone", extra={"object": str(KEY)})
            return
        try:
            trust = decode(change.new)
        except ConfigurationError as exc:
            logger.error("authentication not reconfigured", extra={"error": str(exc)})  # noqa: TRY400 - one line
            return
        self.current = trust
        logger.info("authentication configured", extra={"object": str(KEY)})
        for handler in self._handlers:
            handler(trust)
        self._ready.set()


def _authorities(data: Json, key: str) -> Authorities:
    try:
        return Authorities(str(data.get(key) or "").encode())
    except BundleError as exc:
        raise ConfigurationError(f"ConfigMap {KEY}, {key}: {exc}") from exc


def _names(data: Json, key: str) -> tuple[str, ...]:
    text = data.get(key)
    if not text:
        return ()
    try:
        return _NAMES.decode(text)
    except msgspec.MsgspecError as exc:
        raise ConfigurationError(f"ConfigMap {KEY}, {key}: not a list of names") from exc
