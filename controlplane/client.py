"""As much of a Kubernetes client as it takes to see that a new control plane works.

Blocking and with one connection for each request; the supervisor calls it from threads.
"""

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from controlplane.errors import ControlPlaneError

MANIFESTS: Final = Path(__file__).parent / "manifests"
NODE: Final = "/api/v1/nodes/penstock"
DEFAULT_ACCOUNT: Final = "/api/v1/namespaces/default/serviceaccounts/default"

Json: TypeAlias = dict[str, Any]

_TIMEOUT_SECONDS: Final = 5

_PATHS: Final = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Node": "/api/v1/nodes",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
}
# A namespace of Kubernetes' own, or what hands out ClusterIPs, is not there yet.
_TOO_EARLY: Final = frozenset(
    {
        http.HTTPStatus.NOT_FOUND,
        http.HTTPStatus.INTERNAL_SERVER_ERROR,
        http.HTTPStatus.SERVICE_UNAVAILABLE,
    }
)


def manifests(name: str, values: Mapping[str, str] | None = None) -> list[Json]:
    """Return the objects of a file in ``manifests/``; ``values`` stand for names in braces."""
    text = (MANIFESTS / name).read_text()
    return list(yaml.safe_load_all(text if values is None else text.format_map(values)))


class Client:
    """Talks to one API server with the client certificate in ``<pki>/admin.crt``."""

    def __init__(self, *, port: int, pki: Path, host: str = "127.0.0.1") -> None:
        self._host = host
        self._port = port
        self._tls = ssl.create_default_context(cafile=pki / "ca.crt")
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def is_ready(self) -> bool:
        """Tell whether the API server has finished its start."""
        return self._try("/readyz") is not None

    def is_populated(self) -> bool:
        """Tell whether controllers and kwok work: the node is Ready, the default account there."""
        node = self._try(NODE)
        if node is None or self._try(DEFAULT_ACCOUNT) is None:
            return False
        conditions = json.loads(node).get("status", {}).get("conditions", [])
        return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)

    def create_all(self, manifests: Iterable[Json]) -> bool:
        """Create objects that are not there; tell whether all are, or it is too early for one.

        Raises:
            ControlPlaneError: the API server refuses one.
        """
        return all(self._create(manifest) for manifest in manifests)

    def _create(self, manifest: Json) -> bool:
        metadata = manifest["metadata"]
        path = _PATHS[manifest["kind"]].format(namespace=metadata.get("namespace"))
        status, body = self._request("POST", path, manifest)
        if status in _TOO_EARLY:
            return False
        if status not in (http.HTTPStatus.CREATED, http.HTTPStatus.CONFLICT):
            name = f"{manifest['kind']} {metadata['name']}"
            raise ControlPlaneError(f"the API server refuses {name}: {body.decode()[:300]}")
        return True

    def _try(self, path: str) -> bytes | None:
        try:
            status, body = self._request("GET", path, None)
        except (OSError, http.client.HTTPException):
            return None
        return body if status == http.HTTPStatus.OK else None

    def _request(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=_TIMEOUT_SECONDS, context=self._tls
        )
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
