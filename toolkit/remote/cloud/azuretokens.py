"""Azure: tokens of Microsoft Entra ID for a scope.

The identity of this process comes from its environment: a federated token (AKS Workload Identity),
a secret in environment variables, or the managed identity of the node. The identity of a
ServiceAccount is the application in its annotations.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from toolkit import untrusted
from toolkit.remote.cloud import web
from toolkit.remote.cloud.errors import CloudError
from toolkit.remote.cloud.identity import Bearer, Identity, key_of
from toolkit.remote.cloud.services import Services
from toolkit.remote.proxy import Proxy

CLIENT: Final = "azure.workload.identity/client-id"
TENANT: Final = "azure.workload.identity/tenant-id"
AUDIENCE: Final = "api://AzureADTokenExchange"

_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_NODE: Final = "http://169.254.169.254"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}")
_DAY: Final = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One of Microsoft's clouds: its authority, and the domains of its services."""

    authority: str
    manager: str
    """The Resource Manager; with ``/.default`` it is the scope for it, and for registries."""
    registries: str
    blobs: tuple[str, ...]
    hubs: str = "servicebus.windows.net"


_PUBLIC: Final = Environment(
    authority="https://login.microsoftonline.com",
    manager="https://management.azure.com",
    registries="azurecr.io",
    blobs=("blob.core.windows.net", "blob.storage.azure.net"),
)
_ENVIRONMENTS: Final = (
    _PUBLIC,
    Environment(
        authority="https://login.chinacloudapi.cn",
        manager="https://management.chinacloudapi.cn",
        registries="azurecr.cn",
        blobs=("blob.core.chinacloudapi.cn",),
        hubs="servicebus.chinacloudapi.cn",
    ),
    Environment(
        authority="https://login.microsoftonline.us",
        manager="https://management.usgovcloudapi.net",
        registries="azurecr.us",
        blobs=("blob.core.usgovcloudapi.net",),
        hubs="servicebus.usgovcloudapi.net",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureTokens:
    """Gets access tokens."""

    services: Services

    async def environment(self) -> Environment:
        """Return the cloud that the operator chose with ``AZURE_AUTHORITY_HOST``.

        ``AZURE_ENVIRONMENT_FILEPATH`` names a JSON file for one that is not Microsoft's own
        (Azure Stack): ``resourceManagerEndpoint``, ``containerRegistryDNSSuffix``,
        ``storageEndpointSuffix``.

        Raises:
            CloudError: the file cannot be read.
        """
        authority = self.services.variable("AZURE_AUTHORITY_HOST").rstrip("/")
        found = next((one for one in _ENVIRONMENTS if one.authority == authority), _PUBLIC)
        variable = "AZURE_ENVIRONMENT_FILEPATH"
        path = self.services.variable(variable)
        if not path:
            return _with(found, authority, {})
        try:
            text = await self.services.file(path, named_by=variable)
            given = untrusted.load_json(text, dict[str, Any], size=len(text))
        except untrusted.UntrustedError as exc:
            raise CloudError(f"'{path}', which {variable} names, cannot be read: {exc}") from exc
        return _with(found, authority, given)

    async def get(self, who: Identity | None, *, scope: str, proxy: Proxy | None) -> Bearer:
        """Return a token of an identity for ``scope``.

        Raises:
            CloudError: there is no identity, or Entra ID refuses it.
        """

        async def fetch() -> Bearer:
            if who is None:
                return await self._own(scope, proxy)
            client, tenant = self._application(who)
            token = await who.token(AUDIENCE)
            return await self._enter(
                str(who), (client, tenant), scope=scope, proof=_asserted(token), proxy=proxy
            )

        return await self.services.cache.get("azure", (key_of(who), scope, proxy), fetch)

    def _application(self, who: Identity) -> tuple[str, str]:
        client = who.annotations.get(CLIENT, "")
        tenant = who.annotations.get(TENANT, "") or self.services.variable("AZURE_TENANT_ID")
        for name, value in ((CLIENT, client), (TENANT, tenant)):
            if not value:
                raise CloudError(f"{who} has no annotation '{name}', which names its identity")
            if not _ID.fullmatch(value):
                raise CloudError(f"annotation '{name}' of {who} is not an id")
        return client, tenant

    async def _own(self, scope: str, proxy: Proxy | None) -> Bearer:
        variable = self.services.variable
        client, tenant = variable("AZURE_CLIENT_ID"), variable("AZURE_TENANT_ID")
        file, secret = variable("AZURE_FEDERATED_TOKEN_FILE"), variable("AZURE_CLIENT_SECRET")
        if client and tenant and (file or secret):
            proof = {"client_secret": secret}
            if file:
                token = await self.services.file(file, named_by="AZURE_FEDERATED_TOKEN_FILE")
                proof = _asserted(token)
            return await self._enter(
                "this process", (client, tenant), scope=scope, proof=proof, proxy=proxy
            )
        return await self._managed(client, scope)

    async def _enter(
        self,
        who: str,
        application: tuple[str, str],
        *,
        scope: str,
        proof: dict[str, str],
        proxy: Proxy | None,
    ) -> Bearer:
        """Ask for a token by client credentials (RFC 6749, 4.4; RFC 7523)."""
        client, tenant = application
        purpose = (
            f"{who} gets no token as application '{client}' of tenant '{tenant}':"
            " see the application's federated credentials"
        )
        authority = (await self.environment()).authority
        headers, body = web.form(
            grant_type="client_credentials", client_id=client, scope=scope, **proof
        )
        answer = await self.services.web.ask(
            "POST",
            f"{authority}/{web.segment(tenant)}/oauth2/v2.0/token",
            purpose=purpose,
            headers=headers,
            body=body,
            proxy=proxy,
            plain=authority.startswith("http://"),
        )
        return self._bearer(web.decoded(answer, purpose=purpose), purpose)

    async def _managed(self, client: str, scope: str) -> Bearer:
        """Ask the node for a token of its managed identity."""
        purpose = (
            "this process has no identity at Azure: give its ServiceAccount one,"
            " or name one in the object's serviceAccountName"
        )
        base = self.services.variable("AZURE_POD_IDENTITY_AUTHORITY_HOST").rstrip("/") or _NODE
        query = {"api-version": "2018-02-01", "resource": scope.removesuffix("/.default")}
        if client:
            query["client_id"] = client
        answer = await self.services.web.ask_node(
            "GET",
            f"{base}/metadata/identity/oauth2/token?{urlencode(query)}",
            purpose=purpose,
            headers={"Metadata": "true"},
        )
        return self._bearer(web.decoded(answer, purpose=purpose), purpose)

    def _bearer(self, answer: web.Json, purpose: str) -> Bearer:
        token = web.text_field(answer, "access_token", purpose=purpose)
        return Bearer(token=token, expires_at=self.services.now() + lifetime(answer, purpose))


def lifetime(answer: web.Json, purpose: str) -> timedelta:
    """Return ``expires_in`` of an OAuth answer; the metadata service sends it as text.

    Raises:
        CloudError: it is not a number of seconds.
    """
    given = answer.get("expires_in")
    try:
        seconds = int(given) if isinstance(given, int | str) else 0
    except ValueError:
        seconds = 0
    if seconds <= 0:
        raise CloudError(f"{purpose}: the answer lacks 'expires_in'")
    return timedelta(seconds=min(seconds, _DAY))


def _asserted(token: str) -> dict[str, str]:
    return {"client_assertion_type": _ASSERTION, "client_assertion": token}


def _with(found: Environment, authority: str, given: dict[str, object]) -> Environment:
    def value(name: str, usual: str) -> str:
        said = given.get(name)
        return said.rstrip("/") if isinstance(said, str) and said else usual

    suffix = value("storageEndpointSuffix", "")
    return Environment(
        authority=authority or found.authority,
        manager=value("resourceManagerEndpoint", found.manager),
        registries=value("containerRegistryDNSSuffix", found.registries).lstrip("."),
        blobs=(f"blob.{suffix}",) if suffix else found.blobs,
        hubs=f"servicebus.{suffix}" if suffix else found.hubs,
    )
