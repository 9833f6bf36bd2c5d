"""Clients for the clusters that ``spec.kubeConfig`` names.

They are cached by the digest of what describes them, so a changed Secret makes a new client and a
hundred objects share one. The least recently used are put to sleep; idle connections close by
themselves. Tenants' kubeconfigs are data: see ``config.from_untrusted_kubeconfig``.
"""

import asyncio
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from crds.meta import KubeConfigReference
from toolkit.kube import config, errors, mapper
from toolkit.kube.client import Client
from toolkit.kube.secrets import CONFIG_MAP, SECRET, Secrets

_TOKEN_SECONDS: Final = 3600
_TOKEN_TIMEOUT: Final = 30.0
_MAX_BODY: Final = 16 << 20
"""Bytes of an answer: whoever runs the server may be hostile."""
_REASON: Final = "KubeConfigInvalid"


class RemoteClients:
    """Opens and keeps the clients of remote clusters. Close it with the process."""

    def __init__(
        self,
        client: Client,
        *,
        allow_insecure_tls: bool = False,
        default_service_account: str = "",
        size: int = 100,
    ) -> None:
        self._client = client
        self._secrets = Secrets(client)
        self._allow_insecure_tls = allow_insecure_tls
        self._default_account = default_service_account
        self._size = size
        self._cache: OrderedDict[str, Client] = OrderedDict()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        while self._cache:
            await self._cache.popitem()[1].close()

    async def client(self, namespace: str, ref: KubeConfigReference) -> Client:
        """Return the client for a reference made in ``namespace``.

        Raises:
            TransientError: the Secret or ConfigMap is missing.
            KubeConfigError: its content is malformed or asks for what is not allowed.
        """
        if ref.secret_ref is not None:
            data = await self._secrets.data(SECRET, namespace, ref.secret_ref.name, reason=_REASON)
            text = _kubeconfig(data.values, ref.secret_ref.key, ref.secret_ref.name)
            digest = hashlib.sha256(text).hexdigest()
            return await self._cached(digest, lambda: self._from_kubeconfig(text))
        if ref.config_map_ref is not None:
            name = ref.config_map_ref.name
            data = await self._secrets.data(CONFIG_MAP, namespace, name, reason=_REASON)
            values = {key: value.decode(errors="replace") for key, value in data.values.items()}
            digest = hashlib.sha256(repr((namespace, sorted(values.items()))).encode()).hexdigest()
            return await self._cached(
                digest, lambda: self._from_config_map(namespace, name, values)
            )
        raise errors.KubeConfigError("kubeConfig names neither a Secret nor a ConfigMap")

    async def _cached(self, digest: str, make: Callable[[], config.ClusterConfig]) -> Client:
        client = self._cache.pop(digest, None) or Client.open(make(), max_body=_MAX_BODY)
        self._cache[digest] = client
        if len(self._cache) > self._size:
            # A client that is closed opens its pool anew when somebody still uses it.
            await self._cache.popitem(last=False)[1].close()
        return client

    def _from_kubeconfig(self, text: bytes) -> config.ClusterConfig:
        return config.from_untrusted_kubeconfig(
            text.decode(errors="replace"), allow_insecure_tls=self._allow_insecure_tls
        )

    def _from_config_map(
        self, namespace: str, name: str, values: Mapping[str, str]
    ) -> config.ClusterConfig:
        """Describe a cluster that trusts our service accounts by OIDC (provider ``generic``)."""
        provider = values.get("provider", "")
        if provider != "generic":
            raise errors.KubeConfigError(
                f"ConfigMap {name}: provider {provider!r} is not supported"
            )
        address = values.get("address", "")
        if not address.startswith("https://"):
            raise errors.KubeConfigError(f"ConfigMap {name}: address must be an https URL")
        account = values.get("serviceAccountName") or self._default_account
        if not account:
            raise errors.KubeConfigError(f"ConfigMap {name}: serviceAccountName is missing")
        audiences = [part.strip() for part in values.get("audiences", "").splitlines()]
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{mapper.segment(account)}/token"
        wanted = [part for part in audiences if part] or [address]
        return config.ClusterConfig(
            server=address.rstrip("/"),
            ca=values["ca.crt"].encode() if values.get("ca.crt") else None,
            token=_RequestedToken(self._client, path, wanted),
        )


class _RequestedToken:
    """A service account token (TokenRequest), asked for again when most of its life is over."""

    def __init__(self, client: Client, path: str, audiences: list[str]) -> None:
        self._client = client
        self._path = path
        self._audiences = audiences
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def __call__(self) -> str:
        """Return a valid token; called in a thread, so the loop can do the asking."""
        with self._lock:
            if time.time() >= self._renew_at:
                asking = asyncio.run_coroutine_threadsafe(self._ask(), self._loop)
                asking.result(_TOKEN_TIMEOUT)
            return self._token

    async def _ask(self) -> None:
        spec = {"audiences": self._audiences, "expirationSeconds": _TOKEN_SECONDS}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        status = (await self._client.request("POST", self._path, body=body))["status"]
        now = time.time()
        expires = datetime.fromisoformat(status["expirationTimestamp"]).timestamp()
        self._token = status["token"]
        self._renew_at = now + 0.8 * (expires - now)


def _kubeconfig(values: Mapping[str, bytes], key: str, name: str) -> bytes:
    # Flux: the named key, else ``value``, else ``value.yaml`` (meta.KubeConfigReference).
    for candidate in (key,) if key else ("value", "value.yaml"):
        if candidate in values:
            return values[candidate]
    raise errors.KubeConfigError(f"Secret {name} has no kubeconfig under {key or 'value'!r}")
