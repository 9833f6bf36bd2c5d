"""Azure as it checks requests: Entra ID, registries, Resource Manager, a node's identity."""

import base64
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import yaml
from aiohttp import web

from tests.fakes.issuer import Json, RefusedError

_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass
class Azure:
    """What Azure knows: ``applications`` by tenant and client are an issuer and a subject."""

    claims: Callable[[str, str, str], Json]
    applications: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)
    clusters: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    node_client: str = ""

    def mint(self, client: str, scope: str) -> Json:
        """Give out a token."""
        token = f"aad-{secrets.token_hex(12)}"
        self.tokens[token] = (client, scope)
        return {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer a request to a service."""
        if request.host == "login.microsoftonline.com":
            return self._enter(request.path, dict(parse_qsl(body.decode())))
        if request.host == "management.azure.com":
            return self._credentials(request)
        return self._exchange(request, dict(parse_qsl(body.decode())))

    def _enter(self, path: str, form: dict[str, str]) -> web.Response:
        tenant = path.split("/")[1]
        assert path == f"/{tenant}/oauth2/v2.0/token"
        assert form["grant_type"] == "client_credentials"
        assert form["client_assertion_type"] == _JWT_BEARER
        issuer, subject = self.applications.get((tenant, form["client_id"]), ("", ""))
        assertion = form["client_assertion"]
        claims = self.claims(assertion, issuer, "api://AzureADTokenExchange")
        if claims["sub"] != subject:
            raise RefusedError("AADSTS70021: no matching federated identity record found")
        return web.json_response(self.mint(form["client_id"], form["scope"]))

    def _exchange(self, request: web.BaseRequest, form: dict[str, str]) -> web.Response:
        assert request.path == "/oauth2/exchange"
        assert form["grant_type"] == "access_token"
        client, scope = self.tokens.get(form["access_token"], ("", ""))
        if scope != "https://management.azure.com/.default" or form["service"] != request.host:
            raise RefusedError("unauthorized")
        claims = {"exp": int(time.time()) + 10800, "sub": client}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        return web.json_response({"refresh_token": f"x.{payload}.{client}"})

    def _credentials(self, request: web.BaseRequest) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        _, scope = self.tokens.get(token, ("", ""))
        if scope != "https://management.azure.com/.default":
            raise RefusedError("InvalidAuthenticationToken")
        path, _, verb = request.path.rpartition("/")
        if request.method != "POST" or verb != "listClusterUserCredential":
            raise RefusedError("no such operation")
        assert request.query["api-version"]
        if path not in self.clusters:
            return web.json_response({"error": {"code": "ResourceNotFound"}}, status=404)
        configs = [
            {"name": "clusterUser", "value": _kubeconfig(server, ca)}
            for server, ca in self.clusters[path]
        ]
        return web.json_response({"kubeconfigs": configs})

    async def node(self, request: web.BaseRequest, _: bytes) -> web.Response:
        """Answer as the metadata service."""
        if request.headers.get("Metadata") != "true" or not self.node_client:
            return web.json_response({"error": "invalid_request"}, status=400)
        assert request.path == "/metadata/identity/oauth2/token"
        body = self.mint(self.node_client, f"{request.query['resource']}/.default")
        return web.json_response(body | {"expires_in": str(body["expires_in"])})


def _kubeconfig(server: str, ca: str) -> str:
    cluster = {"server": server, "certificate-authority-data": _base64(ca)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        # What the real one has here too: a program to run, which must not count.
        "users": [{"name": "u", "user": {"exec": {"command": "kubelogin"}}}],
    }
    return _base64(yaml.safe_dump(document))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
