"""A fleet as Flux's controllers leave it: in Git, and applied in a cluster.

Objects carry the field managers, labels, finalizers, inventories and conditions of
source-controller and kustomize-controller 1.9.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from cli.stack import install
from tests.fakes import fluxinstallation, fluxrelease
from tests.fakes.fluxinstallation import NAMESPACE
from tests.fakes.gitrepository import Repository
from toolkit import inventory
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, ref_of

PATH = "clusters/prod"
CHART = "charts/shop"
COMPONENTS = f"{PATH}/flux-system/gotk-components.yaml"
GIT_REPOSITORY = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
_MANAGER = "kustomize-controller"
_GROUP = "kustomize.toolkit.fluxcd.io"
_FINALIZER = "finalizers.fluxcd.io"
_THEN = "2026-01-01T00:00:00Z"
_NOTHING: Mapping[str, str] = {}
_SHARED = {"name": "shared", "namespace": "platform"}


def namespace(name: str) -> Json:
    """Return a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(name: str, place: str) -> Json:
    """Return a Deployment of a workload."""
    labels = {"app": name}
    container = {"name": "app", "image": "registry.example/app:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": place},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def config_map(name: str, place: str, **data: str) -> Json:
    """Return a ConfigMap."""
    metadata = {"name": name, "namespace": place}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def source(url: str, name: str = NAMESPACE, place: str = NAMESPACE) -> Json:
    """Return a GitRepository."""
    return {
        "apiVersion": GIT_REPOSITORY.api_version,
        "kind": GIT_REPOSITORY.kind,
        "metadata": {"name": name, "namespace": place},
        "spec": {"interval": "1m", "ref": {"branch": "main"}, "url": url},
    }


def kustomization(
    name: str, path: str, place: str = NAMESPACE, reference: Mapping[str, str] = _NOTHING
) -> Json:
    """Return a Kustomization of a path."""
    return {
        "apiVersion": KUSTOMIZATION.api_version,
        "kind": KUSTOMIZATION.kind,
        "metadata": {"name": name, "namespace": place},
        "spec": {
            "interval": "10m",
            "path": f"./{path}",
            "prune": True,
            "sourceRef": {"kind": GIT_REPOSITORY.kind, "name": NAMESPACE, **reference},
        },
    }


def release(name: str, place: str) -> Json:
    """Return a HelmRelease of the chart that is in the repository."""
    reference = {"kind": GIT_REPOSITORY.kind, "name": NAMESPACE, "namespace": NAMESPACE}
    return {
        "apiVersion": fluxrelease.HELM_RELEASE.api_version,
        "kind": fluxrelease.HELM_RELEASE.kind,
        "metadata": {"name": name, "namespace": place},
        "spec": {
            "interval": "10m",
            "chart": {"spec": {"chart": f"./{CHART}", "sourceRef": reference}},
        },
    }


class Fleet:
    """Three Kustomizations: of the cluster itself, of its apps, of what one team shares.

    With ``releases`` there are HelmReleases of these names among the apps; that they were
    installed is told by others (``fluxrelease``).
    """

    def __init__(self, repository: Repository, *, releases: Iterable[str] = ()) -> None:
        self.repository = repository
        sync = source(repository.url), kustomization(NAMESPACE, PATH)
        self.apps = kustomization("apps", "apps")
        self.extra = kustomization("extra", "extra", "shop", _SHARED)
        self.synced = [*sync, self.apps]
        self.built: Mapping[str, list[Json]] = {
            # Kustomization: what it builds
            NAMESPACE: [*fluxinstallation.manifests(), *self.synced],
            "apps": [
                namespace("shop"),
                namespace("platform"),
                source(repository.url, "shared", "platform"),
                self.extra,
                deployment("web", "shop"),
                deployment("worker", "shop"),
                *(release(each, "shop") for each in releases),
                config_map("settings", "shop", colour="green"),
            ],
            "extra": [deployment("extra", "shop")],
        }
        self.revision = f"main@sha1:{repository.commit(self._files(sync))}"

    def _files(self, sync: Iterable[Json]) -> dict[str, str | None]:
        folder = f"{PATH}/flux-system"
        listed = ["gotk-components.yaml", "gotk-sync.yaml"]
        return {
            COMPONENTS: _text(fluxinstallation.manifests()),
            f"{folder}/gotk-sync.yaml": _text(sync),
            f"{folder}/kustomization.yaml": _kustomization(listed),
            f"{PATH}/apps.yaml": _text([self.apps]),
            "apps/all.yaml": _text(self.built["apps"]),
            "extra/all.yaml": _text(self.built["extra"]),
            **{f"{CHART}/{name}": text for name, text in fluxrelease.CHART.items()},
        }

    def without_components(self) -> str:
        """Remove Flux's own manifests from the repository, and return the commit."""
        folder = f"{PATH}/flux-system"
        changed = {
            COMPONENTS: None,
            f"{folder}/kustomization.yaml": _kustomization(["gotk-sync.yaml"]),
        }
        return self.repository.commit(changed)

    def change_settings(self, colour: str) -> str:
        """Commit another value of the ConfigMap, and return the commit."""
        self.built["apps"][-1]["data"]["colour"] = colour
        return self.repository.commit({"apps/all.yaml": _text(self.built["apps"])})

    async def leave(self, api: Client) -> None:
        """Apply everything as Flux does, and write what its controllers say of it."""
        definitions = fluxinstallation.definitions()
        await _applied(api, definitions, {})
        await install.established(api, [each["metadata"]["name"] for each in definitions])
        api.mapper.invalidate()
        for name, objects in self.built.items():
            place = "shop" if name == "extra" else NAMESPACE
            await _applied(api, objects, {f"{_GROUP}/name": name, f"{_GROUP}/namespace": place})
        for name, objects in self.built.items():
            place = "shop" if name == "extra" else NAMESPACE
            entries = inventory.encode(map(ref_of, objects))
            await _reconciled(api, KUSTOMIZATION, name, place, self._applied(entries))
        for name, place in ((NAMESPACE, NAMESPACE), ("shared", "platform")):
            await _reconciled(api, GIT_REPOSITORY, name, place, self._stored(name, place))

    def _applied(self, entries: list[dict[str, str]]) -> Json:
        message = f"Applied revision: {self.revision}"
        return {
            "conditions": [_ready("ReconciliationSucceeded", message)],
            "inventory": {"entries": entries},
            "lastAppliedRevision": self.revision,
            "lastAttemptedRevision": self.revision,
            "observedGeneration": 1,
        }

    def _stored(self, name: str, place: str) -> Json:
        path = f"gitrepository/{place}/{name}/{self.revision[-40:]}.tar.gz"
        artifact = {
            "digest": f"sha256:{'0' * 64}",
            "lastUpdateTime": _THEN,
            "path": path,
            "revision": self.revision,
            "url": f"http://source-controller.{NAMESPACE}.svc.cluster.local./{path}",
        }
        message = f"stored artifact for revision '{self.revision}'"
        return {
            "artifact": artifact,
            "conditions": [_ready("Succeeded", message)],
            "observedGeneration": 1,
        }


async def _applied(api: Client, objects: Iterable[Json], labels: Mapping[str, str]) -> None:
    for each in objects:
        metadata = each["metadata"]
        owned = {**metadata, "labels": {**metadata.get("labels", {}), **labels}}
        await api.apply({**each, "metadata": owned}, manager=_MANAGER)


async def _reconciled(
    api: Client, kind: GroupVersionKind, name: str, place: str, status: Json
) -> None:
    body: Any = {"metadata": {"finalizers": [_FINALIZER]}}
    await api.patch(kind, name, place, body, strategy="merge", manager=f"gotk-{_MANAGER}")
    await api.patch(
        *(kind, name, place, {"status": status}),
        strategy="merge",
        subresource="status",
        manager=f"gotk-{_MANAGER}",
    )


def _ready(reason: str, message: str) -> Json:
    return {
        "type": "Ready",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": _THEN,
        "observedGeneration": 1,
    }


def _kustomization(files: list[str]) -> str:
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return yaml.safe_dump({**kind, "resources": files})


def _text(objects: Iterable[Json]) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False)
