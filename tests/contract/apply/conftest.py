"""A client that counts its requests, and objects to apply, on the real API server."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from controlplane.plane import ControlPlane
from tests.tools.waiting import until
from toolkit.apply import ownership, ssa
from toolkit.apply.options import ApplyOptions
from toolkit.apply.ownership import Owner
from toolkit.kube import config, transport
from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import Json, dig, ref_of
from toolkit.remote.http.reach import Reach


class Wire(transport.Transport):
    """A transport that remembers what was asked."""

    def __init__(self, cluster: config.ClusterConfig) -> None:
        super().__init__(
            cluster,
            qps=0,
            burst=0,
            timeout=30,
            patience=None,
            max_body=1 << 30,
            reach=Reach.ANYWHERE,
        )
        self.sent: list[str] = []

    async def send(self, request: transport.Request) -> transport.Reply:
        dry = " dry" if "dryRun" in request.query else ""
        if request.path not in ("/api", "/apis"):
            self.sent.append(f"{request.method}{dry}")
        return await super().send(request)


@pytest.fixture
async def wire(control_plane: ControlPlane) -> AsyncIterator[Wire]:
    cluster = config.from_environment(str(control_plane.kubeconfig))
    opened = Wire(cluster)
    yield opened
    await opened.close()


@pytest.fixture
def api(wire: Wire) -> Client:
    return Client(wire, {}, namespace="default")


@pytest.fixture
def cluster(kubectl: Callable[..., str], namespace: str) -> Callable[..., str]:
    """Run kubectl in the test's namespace."""
    return lambda *arguments, **kwargs: kubectl("-n", namespace, *arguments, **kwargs)


@pytest.fixture
def owner(namespace: str) -> Owner:
    return Owner(namespace=namespace, name="app")


@pytest.fixture
def options(owner: Owner) -> ApplyOptions:
    return ApplyOptions(owner=owner)


Apply = Callable[..., Any]


@pytest.fixture
def apply(api: Client, options: ApplyOptions) -> Apply:
    """Give a function that owns and applies objects."""

    async def run(*objects: Json, as_: Client | None = None, **kwargs: Any) -> Any:
        chosen = kwargs.pop("options", options)
        owned = [ownership.own(obj, chosen.owner) for obj in objects]
        return await ssa.apply(as_ or api, owned, options=chosen, **kwargs)

    return run


async def permitted(api: Client, obj: Json) -> None:
    """Wait until RBAC knows a new role, so that the client may get this object."""
    ref = ref_of(obj)

    async def may() -> bool:
        with contextlib.suppress(ForbiddenError):
            await api.get(ref.gvk, ref.name, ref.namespace)
            return True
        return False

    await until(may)


class Make:
    """Objects in the test's namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def __call__(self, api_version: str, kind: str, name: str, **fields: Any) -> Json:
        metadata = {"name": name, "namespace": self.namespace, **fields.pop("metadata", {})}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}

    @staticmethod
    def marked(obj: Json, **marks: str) -> Json:
        """Return the object with ``kustomize.toolkit.fluxcd.io/…`` annotations."""
        notes = {f"kustomize.toolkit.fluxcd.io/{key}": value for key, value in marks.items()}
        notes |= dig(obj, "metadata", "annotations", default={})
        return {**obj, "metadata": {**obj["metadata"], "annotations": notes}}

    def config_map(self, name: str = "conf", **data: str) -> Json:
        return self("v1", "ConfigMap", name, data=data or {"key": "value"})

    def secret(self, name: str = "secret", **data: str) -> Json:
        return self("v1", "Secret", name, stringData=data)

    def deployment(self, name: str = "web", *, image: str = "nginx:1", **spec: Any) -> Json:
        labels = {"app": name}
        container = {"name": "web", "image": image, "env": [{"name": "A", "value": "1"}]}
        return self(
            "apps/v1",
            "Deployment",
            name,
            spec={
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                **spec,
            },
        )

    def service(self, name: str = "web") -> Json:
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        return self("v1", "Service", name, spec={"selector": {"app": name}, "ports": ports})

    def account(self, name: str = "web") -> Json:
        return self("v1", "ServiceAccount", name)


@pytest.fixture
def make(namespace: str) -> Make:
    return Make(namespace)
