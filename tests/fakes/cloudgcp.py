"""Google Cloud as it checks requests: STS, IAM credentials, GKE, the metadata server."""

import base64
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from aiohttp import web

from tests.fakes.issuer import Json, RefusedError

POOL = "fleet.svc.id.goog"
CLUSTER = "projects/fleet/locations/europe-west1/clusters/main"
GKE_AUDIENCE = f"identitynamespace:{POOL}:https://container.googleapis.com/v1/{CLUSTER}"


@dataclass
class Gcp:
    """What Google knows.

    ``providers`` by audience: an issuer, and for whom its tokens must be; ``accounts`` by e-mail
    address: which subjects may become them.
    """

    claims: Callable[[str, str, str], Json]
    providers: dict[str, tuple[str, str]] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, Json] = field(default_factory=dict)
    on_gke: bool = False

    def mint(self, who: str) -> str:
        """Give out a token."""
        token = f"ya29.{secrets.token_hex(12)}"
        self.tokens[token] = who
        return token

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer a request to a service."""
        if request.host == "sts.googleapis.com":
            return self._exchange(dict(parse_qsl(body.decode())))
        who = self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if who is None:
            raise RefusedError("Request had invalid authentication credentials")
        if request.host == "iamcredentials.googleapis.com":
            return self._become(request.path, who, json.loads(body))
        return self._cluster(request.path.removeprefix("/v1/"))

    def _exchange(self, form: dict[str, str]) -> web.Response:
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
        issuer, audience = self.providers.get(form["audience"], ("", ""))
        claims = self.claims(form["subject_token"], issuer, audience)
        body = {"access_token": self.mint(claims["sub"]), "expires_in": 3600}
        return web.json_response(body)

    def _become(self, path: str, who: str, body: Json) -> web.Response:
        email = path.rpartition("/")[2].removesuffix(":generateAccessToken")
        assert path == f"/v1/projects/-/serviceAccounts/{email}:generateAccessToken"
        if self.accounts.get(email) != who or not body["scope"]:
            raise RefusedError("Permission 'iam.serviceAccounts.getAccessToken' denied")
        end = datetime.now(UTC) + timedelta(hours=1)
        return web.json_response(
            {"accessToken": self.mint(email), "expireTime": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        )

    def _cluster(self, name: str) -> web.Response:
        if name not in self.clusters:
            return web.json_response({"error": {"status": "NOT_FOUND"}}, status=404)
        return web.json_response(self.clusters[name])

    def cluster(self, endpoint: str, ca: str, *, private: str = "", dns: str = "") -> Json:
        """Return a cluster's description."""
        encoded = base64.b64encode(ca.encode()).decode()
        return {
            "endpoint": endpoint,
            "masterAuth": {"clusterCaCertificate": encoded},
            "privateClusterConfig": {"privateEndpoint": private},
            "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": dns}},
        }

    async def node(self, request: web.BaseRequest, _: bytes) -> web.Response:
        """Answer as the metadata server."""
        if request.headers.get("Metadata-Flavor") != "Google":
            return web.Response(status=403)
        values = {
            "project/project-id": "fleet",
            "instance/attributes/cluster-name": "main",
            "instance/attributes/cluster-location": "europe-west1",
        }
        path = request.path.removeprefix("/computeMetadata/v1/")
        if self.on_gke and path == "instance/service-accounts/default/token":
            token = self.mint("node@fleet.iam.gserviceaccount.com")
            return web.json_response({"access_token": token, "expires_in": 3599})
        if self.on_gke and path in values:
            return web.Response(text=values[path])
        return web.Response(status=404)
