"""Azure: logins for Container Registry, tokens for Blob Storage and DevOps, access to AKS.

A token for a service is shown to hosts of that service only: a bearer token is worth as much to
anyone it is sent to.
"""

import base64
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from toolkit import untrusted
from toolkit.remote.cloud import clusters, web
from toolkit.remote.cloud.azuretokens import AzureTokens
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.identity import (
    Bearer,
    BucketPlace,
    ClusterAccess,
    ClusterName,
    Identity,
    Login,
    host_of,
    key_of,
)
from toolkit.remote.cloud.services import UNKNOWN_LIFE, Services
from toolkit.remote.proxy import Proxy

STORAGE: Final = "https://storage.azure.com/.default"
DEVOPS: Final = "499b84ac-1321-427f-aa17-267ca6975798/.default"
AKS: Final = "6dae42f8-4368-4678-94ff-3960e28e3630/.default"
"""The applications "Azure DevOps" and "Azure Kubernetes Service AAD Server" of every tenant."""

_REGISTRY_USER: Final = "00000000-0000-0000-0000-000000000000"
_API: Final = "2024-05-01"
_DESCRIPTION_LIFE: Final = timedelta(minutes=15)
_CLUSTER: Final = re.compile(
    r"/?subscriptions/(?P<subscription>[0-9A-Za-z-]+)/resourceGroups/(?P<group>[\w().-]+)"
    r"/providers/Microsoft\.ContainerService/managedClusters/(?P<name>[\w-]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Azure:
    """The provider ``azure``."""

    services: Services

    async def registry(self, host: str, who: Identity | None, proxy: Proxy | None) -> Login:
        """Exchange a token for a login of one registry (Azure/acr, "AAD-OAuth")."""
        tokens = AzureTokens(services=self.services)
        environment = await tokens.environment()
        if not _below(host, environment.registries):
            raise ForeignHostError(f"'{host}' is not a registry of provider azure")
        purpose = f"no login for the registry '{host}'"

        async def fetch() -> Login:
            scope = f"{environment.manager}/.default"
            token = await tokens.get(who, scope=scope, proxy=proxy)
            headers, body = web.form(
                grant_type="access_token", service=host, access_token=token.token
            )
            answer = await self.services.web.ask(
                "POST",
                f"https://{host}/oauth2/exchange",
                purpose=purpose,
                headers=headers,
                body=body,
                proxy=proxy,
            )
            password = web.text_field(
                web.decoded(answer, purpose=purpose), "refresh_token", purpose=purpose
            )
            end = _end(password) or self.services.now() + UNKNOWN_LIFE
            return Login(username=_REGISTRY_USER, password=password, expires_at=end)

        return await self.services.cache.get("registry", ("azure", key_of(who), host, proxy), fetch)

    async def bucket(self, place: BucketPlace, who: Identity | None, proxy: Proxy | None) -> Bearer:
        """Return a token for Blob Storage."""
        tokens = AzureTokens(services=self.services)
        suffixes = (await tokens.environment()).blobs
        if not place.endpoint.startswith("https://") or not any(
            _below(host_of(place.endpoint), suffix) for suffix in suffixes
        ):
            raise ForeignHostError(f"'{place.endpoint}' is not an endpoint of Azure Blob Storage")
        return await tokens.get(who, scope=STORAGE, proxy=proxy)

    async def git(self, url: str, who: Identity | None, proxy: Proxy | None) -> Bearer:
        """Return a token for Azure DevOps."""
        host = host_of(url)
        if not url.startswith("https://") or not (
            host == "dev.azure.com" or _below(host, "visualstudio.com")
        ):
            raise ForeignHostError(
                "the URL is not one of Azure DevOps, which provider azure is for"
            )
        return await AzureTokens(services=self.services).get(who, scope=DEVOPS, proxy=proxy)

    async def cluster(
        self, named: ClusterName, who: Identity | None, proxy: Proxy | None
    ) -> ClusterAccess:
        """Return the access to an AKS cluster (``/subscriptions/…/managedClusters/<name>``)."""
        found = _CLUSTER.fullmatch(named.cluster)
        if not found:
            raise ForeignHostError(f"'{named.cluster}' is not the resource id of an AKS cluster")
        tokens = AzureTokens(services=self.services)
        path = (
            f"/subscriptions/{found['subscription']}/resourceGroups/{web.segment(found['group'])}"
            f"/providers/Microsoft.ContainerService/managedClusters/{found['name']}"
        )

        async def describe() -> clusters.Description:
            return await self._describe(path, tokens, who, proxy)

        key = ("azure", key_of(who), path.lower(), proxy)
        description = await self.services.cache.get("cluster", key, describe)
        token = await tokens.get(who, scope=AKS, proxy=proxy)
        return clusters.access(named, description, token=token.token, expires_at=token.expires_at)

    async def _describe(
        self, path: str, tokens: AzureTokens, who: Identity | None, proxy: Proxy | None
    ) -> clusters.Description:
        """List the kubeconfigs of a cluster; of these only the servers are used."""
        manager = (await tokens.environment()).manager
        token = await tokens.get(who, scope=f"{manager}/.default", proxy=proxy)
        purpose = f"cannot describe the AKS cluster '{path}'"
        answer = await self.services.web.ask(
            "POST",
            f"{manager}{path}/listClusterUserCredential?api-version={_API}",
            purpose=purpose,
            headers={"Content-Length": "0"},
            bearer=token.token,
            proxy=proxy,
            plain=manager.startswith("http://"),
        )
        configs = web.decoded(answer, purpose=purpose).get("kubeconfigs")
        endpoints = [
            _endpoint(web.text_field(config, "value", purpose=purpose), purpose)
            for config in (configs if isinstance(configs, list) else ())
            if isinstance(config, dict)
        ]
        if not endpoints:
            raise CloudError(f"{purpose}: it has no kubeconfig for users of Entra ID")
        return clusters.Description(
            endpoints=tuple(endpoints), expires_at=self.services.now() + _DESCRIPTION_LIFE
        )


def _below(host: str, suffix: str) -> bool:
    return host.endswith(f".{suffix}") and not host.startswith(".")


def _end(token: str) -> datetime | None:
    """Return the expiry in a JWT that its issuer has just created."""
    try:
        payload = token.split(".")[1]
        decoded = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        claims = untrusted.load_json(decoded, dict[str, Any], size=_MAX_CLAIMS)
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


_MAX_CLAIMS: Final = 64 << 10


def _endpoint(encoded: str, purpose: str) -> tuple[str, bytes | None]:
    try:
        document: Any = untrusted.load_yaml(base64.b64decode(encoded, validate=True))
        cluster = document["clusters"][0]["cluster"]
        server = untrusted.text(cluster, "server")
        ca = untrusted.text(cluster, "certificate-authority-data")
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise CloudError(f"{purpose}: its kubeconfig cannot be read") from exc
    return server, clusters.pem(ca, purpose=purpose) if ca else None
