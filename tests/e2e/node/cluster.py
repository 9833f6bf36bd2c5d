"""A real node that runs the image of this checkout, and the objects that its tests apply."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controlplane.plane import ControlPlane
from tests.tools import command, realnode, waiting
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json

_SECONDS: Final = 300.0
"""A deadline for pods that start one after the other on a busy machine."""
PATIENCE: Final = f"--timeout={_SECONDS:.0f}s"
PLACE: Final = "penstock-system"
TEAM: Final = "team"
POD: Final = GroupVersionKind("", "v1", "Pod")
REPLICAS: Final = 2
"""Of each process, with the component ``ha``."""
_BASE: Final = Path(__file__).parents[3] / "deploy" / "base"


async def until(look: Callable[[], Any]) -> Any:
    """Wait as ``waiting.until`` does, and for what a whole rolling update takes."""
    return await waiting.until(look, seconds=_SECONDS)


@cache
def components() -> frozenset[str]:
    """Return the names of the Deployments of an installation."""
    texts = (file.read_text() for file in _BASE.rglob("*.yaml"))
    documents = (doc for text in texts for doc in yaml.load_all(text, Loader=yaml.CSafeLoader))
    return frozenset(
        doc["metadata"]["name"] for doc in documents if doc and doc["kind"] == "Deployment"
    )


@dataclass(frozen=True)
class Cluster:
    """A node that has the image; ``empty`` is what it holds without Penstock."""

    running: ControlPlane
    empty: frozenset[str] = frozenset()

    @property
    def address(self) -> str:
        """Where pods find servers of this machine."""
        assert self.running.addresses is not None
        return self.running.addresses.host

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.running.kubectl(*arguments, stdin=stdin, timeout=_SECONDS + 30)

    def of(self, *query: str) -> Json:
        """Return a list of objects, or one."""
        found: Json = json.loads(self.kubectl("get", *query, "--output=json"))
        return found

    def apply(self, *objects: Json) -> None:
        self.kubectl("apply", "--filename=-", stdin=yaml.safe_dump_all(objects))

    def pods(self, app: str, namespace: str) -> list[Json]:
        """Return the pods of an app that are not being deleted."""
        found = self.of("pods", f"--namespace={namespace}", f"--selector=app={app}")["items"]
        return [pod for pod in found if not is_leaving(pod)]

    def wait(self, what: str, condition: str = "Ready", *, namespace: str = TEAM) -> None:
        self.kubectl(
            "wait", f"--namespace={namespace}", what, f"--for=condition={condition}", PATIENCE
        )

    async def penstock(self, *arguments: str) -> command.Ended:
        return await command.penstock(self.running.kubeconfig, *arguments)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Open a client of the administrator."""
        async with Client.open(config.from_environment(str(self.running.kubeconfig))) as api:
            yield api

    async def emptied(self) -> None:
        """Return when the cluster holds what it held before anything was installed."""

        def looked() -> bool:
            return holdings(self.running) == self.empty

        try:
            await until(lambda: asyncio.to_thread(looked))
        except TimeoutError:
            more = sorted(holdings(self.running) ^ self.empty)
            pytest.fail(f"left over, or gone: {', '.join(more)}")


def is_leaving(pod: Json) -> bool:
    """Tell whether a pod is being deleted; it may still finish its work."""
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Json) -> bool:
    """Tell whether a pod serves, and goes on serving."""
    rows = {row["type"]: row["status"] for row in pod["status"].get("conditions", ())}
    return rows.get("Ready") == "True" and not is_leaving(pod)


async def renewed(api: Client, is_new: Callable[[Json], bool]) -> None:
    """Return when all replicas of all processes are new ones, and ready; of sources the leader."""
    for app in sorted(components()):
        # Each has a deadline of its own.
        await until(partial(_is_renewed, api, app, is_new))


async def _is_renewed(api: Client, app: str, is_new: Callable[[Json], bool]) -> bool:
    found = [pod for pod in await api.list(POD, PLACE) if pod["metadata"]["labels"]["app"] == app]
    staying = [pod for pod in found if not is_leaving(pod)]
    ready = 1 if app == "source-controller" else REPLICAS
    return (
        len(staying) == REPLICAS
        and all(map(is_new, staying))
        and sum(map(is_ready, staying)) == ready
    )


def uids(objects: list[Json]) -> set[str]:
    return {obj["metadata"]["uid"] for obj in objects}


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def source(url: str, *, name: str = "app", interval: str = "10m") -> Json:
    """Return a GitRepository that follows ``main``."""
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"interval": interval, "url": url, "ref": {"branch": "main"}},
    }


def kustomization(**spec: object) -> Json:
    """Return a Kustomization of the GitRepository ``app``."""
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": TEAM},
        "spec": {
            "interval": "10m",
            "retryInterval": "2s",
            "prune": True,
            "wait": True,
            "targetNamespace": TEAM,
            "sourceRef": {"kind": "GitRepository", "name": "app"},
            **spec,
        },
    }


def release(**spec: object) -> Json:
    """Return a HelmRelease of the chart in the GitRepository ``charts``."""
    reference = {"kind": "GitRepository", "name": "charts"}
    chart = {"chart": "./chart", "sourceRef": reference, "reconcileStrategy": "Revision"}
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "charted", "namespace": TEAM},
        "spec": {"interval": "10m", "chart": {"spec": chart}, **spec},
    }


def web(name: str = "web") -> Json:
    """Return a Deployment whose pod runs."""
    labels = {"app": name}
    container = {"name": "web", "image": realnode.IMAGE, "args": ["serve"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        },
    }


def chart(**values: str) -> dict[str, str]:
    """Return the files of a chart with a Deployment, and a ConfigMap of these values."""
    numbers = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "charted"},
        "data": values,
    }
    return {
        "chart/Chart.yaml": "apiVersion: v2\nname: charted\nversion: 1.0.0\n",
        "chart/templates/web.yaml": yaml.safe_dump(web("charted")),
        "chart/templates/values.yaml": yaml.safe_dump(numbers),
    }


PASSING: Final = ("events", "leases", "endpoints", "pods", "replicasets", "controllerrevisions")
"""Resources whose objects come and go by themselves."""


def holdings(running: ControlPlane) -> frozenset[str]:
    """Return the kind, namespace and name of everything that a cluster has."""
    listed = running.kubectl("api-resources", "--verbs=list", "--output=name").split()
    names = [name for name in listed if name.partition(".")[0] not in PASSING]
    row = "{.kind} {.metadata.namespace} {.metadata.name}"
    template = f"jsonpath={{range .items[*]}}{row}{{'\\n'}}{{end}}"
    text = running.kubectl("get", ",".join(names), "--all-namespaces", f"--output={template}")
    return frozenset(line for line in text.splitlines() if not line.startswith("EndpointSlice "))
