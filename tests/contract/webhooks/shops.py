"""A protected namespace, the Kustomization that may write there, and a person who may not."""

import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import crds
from tests.contract.webhooks.conftest import Gate
from tests.tools.kubectl import Kubectl
from toolkit.apply.ownership import Owner
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ForbiddenError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy import origins
from toolkit.policy.provenance import LABEL
from webhooks import protection, provenance

ROWS = (provenance.ROW, protection.ROW)
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
STATEFUL_SET = GroupVersionKind("apps", "v1", "StatefulSet")
POD = GroupVersionKind("", "v1", "Pod")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
JOB = GroupVersionKind("batch", "v1", "Job")
KUSTOMIZATION = GroupVersionKind(*crds.KUSTOMIZATION.gvk)
GIT_REPOSITORY = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)
MANAGER = "kustomize-controller"
REVISION, DIGEST = "main@sha1:" + "a" * 40, "sha256:" + "1" * 64
SIGNED = "verified signature of commit 'aaa' with key 'K'"
AUTOSCALER = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
WRITE = ["create", "update", "patch", "delete", "deletecollection"]


class Shop:
    """A protected namespace, the Kustomization that may write there, and a person who may not."""

    def __init__(self, gate: Gate, namespace: str) -> None:
        self.gate = gate
        self.admin = gate.admin
        self.namespace = namespace
        self.policy = f"policy-{namespace}"
        # who has every right that RBAC gives in the namespace
        self.alice = Kubectl(
            plane=gate.control_plane,
            namespace=namespace,
            kubeconfig=gate.control_plane.kubeconfig_as("alice"),
        )

    async def open(self) -> None:
        """Make accounts, rights and sources; protect the namespace; wait until it is."""
        await self._fill()
        await self.protect()
        await self.gate.until(self._asked)

    async def _fill(self) -> None:
        await self.gate.beside(self.namespace)
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", *WRITE]}
        rbac = "rbac.authorization.k8s.io"
        role = named(GroupVersionKind(rbac, "v1", "Role"), "writer", self.namespace)
        binding = named(GroupVersionKind(rbac, "v1", "RoleBinding"), "writer", self.namespace)
        accounts = [
            {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
            for name in ("deployer", "default")
        ]
        alice = {"apiGroup": rbac, "kind": "User", "name": "alice"}
        for obj in (
            named(GroupVersionKind("", "v1", "ServiceAccount"), "deployer", self.namespace),
            role | {"rules": [rule]},
            binding
            | {
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "writer"},
                "subjects": [*accounts, alice],
            },
            self.source(),
            self.kustomization(),
        ):
            await self._settled(functools.partial(self.admin.apply, obj, manager="test"))
        await self._settled(functools.partial(self.store, REVISION, DIGEST))

    async def _settled(self, act: Callable[[], Awaitable[object]]) -> None:
        """Do something; kinds are away for a moment while their definition is updated."""

        async def done() -> bool:
            try:
                await act()
            except ApiError as exc:
                if "shutting down" not in str(exc):
                    raise
                return False
            return True

        await self.gate.until(done)

    def source(self, **fields: Any) -> Json:
        spec = {"interval": "1h", "url": "https://git.example/fleet.git", **fields}
        return named(GIT_REPOSITORY, "fleet", self.namespace) | {"spec": spec}

    def kustomization(self, name: str = "web") -> Json:
        spec = {
            "interval": "1h",
            "prune": True,
            "path": "./apps/web",
            "serviceAccountName": "deployer",
            "sourceRef": {"kind": "GitRepository", "name": "fleet"},
        }
        return named(KUSTOMIZATION, name, self.namespace) | {"spec": spec}

    async def store(self, revision: str, digest: str, **fetched: Any) -> None:
        """Have the source hold another artifact, which was ``fetched`` with these fields."""
        artifact = {
            "digest": digest,
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": "p",
            "revision": revision,
            "url": "http://artifacts.example/p",
            "metadata": {
                crds.meta.VERIFIED: SIGNED,
                origins.RECORD: origins.record(origins.own(self.source(**fetched)), ()),
            },
        }
        await self.admin.patch(
            GIT_REPOSITORY,
            "fleet",
            self.namespace,
            {"status": {"artifact": artifact}},
            strategy="merge",
            subresource="status",
        )

    async def protect(self, **spec: Any) -> None:
        """Put the policy, which is for this namespace only, and the label."""
        policy = named(GroupVersionKind(*crds.PROVENANCE_POLICY.gvk), self.policy, "")
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        origins = [{"verifiedBy": ".+ with key 'K'"}]
        body = {"namespaceSelector": selector, "origins": origins, "hint": "Ask Ada.", **spec}
        put = functools.partial(self.admin.apply, policy | {"spec": body}, manager="test")
        await self._settled(put)
        labels = {"metadata": {"labels": {LABEL: "production"}}}
        await self.admin.patch(NAMESPACE, self.namespace, "", labels, strategy="merge")

    async def _asked(self) -> bool:
        """Tell whether the API server asks, and the process knows the policy."""
        try:
            probe = config_map("probe", self.namespace)
            await self.admin.apply(probe, manager=MANAGER, dry_run=True)
        except ForbiddenError as exc:
            return self.policy in str(exc)
        return False

    def applier(self, user: str = "", **claims: str) -> Client:
        """Return the client of a controller that applies, with true claims but for those given."""
        true = {
            "applier": f"Kustomization/{self.namespace}/web",
            "source": f"GitRepository/{self.namespace}/fleet",
            "revision": REVISION,
            "digest": DIGEST,
            "verified": SIGNED,
        }
        account = impersonation.service_account(self.namespace, "deployer")
        extra = impersonation.provenance(**{**true, **claims})
        return self.admin.impersonating(user or account, extra=extra)

    async def apply(self, obj: Json, **claims: str) -> Json:
        """Apply an object as the Kustomization does."""
        owner = Owner(namespace=self.namespace, name="web")
        labels = {**dig(obj, "metadata", "labels", default={}), **owner.labels}
        owned = {**obj, "metadata": {**obj["metadata"], "labels": labels}}
        applied = await self.applier(**claims).apply(owned, manager=MANAGER)
        return applied.object

    async def rolled(self, gvk: GroupVersionKind, name: str) -> Json:
        """Return the object once what it asks for runs."""

        async def done() -> Json | None:
            found = await self.admin.get(gvk, name, self.namespace)
            status, generation = found.get("status") or {}, dig(found, "metadata", "generation")
            fresh = status.get("observedGeneration") == generation
            wanted = dig(found, "spec", "replicas", default=1)
            ready = status.get("updatedReplicas") == status.get("readyReplicas") == wanted
            return found if fresh and ready and status.get("replicas") == wanted else None

        found: Json = await self.gate.until(done)
        return found

    async def pods(self, app: str = "web") -> list[Json]:
        return await self.admin.list(POD, self.namespace, label_selector=f"app={app}")

    async def gone(self, gvk: GroupVersionKind, name: str) -> None:
        async def check() -> bool:
            try:
                await self.admin.get(gvk, name, self.namespace)
            except NotFoundError:
                return True
            return False

        await self.gate.until(check)

    async def close(self) -> None:
        """Leave no policy, and no autoscaler that goes on working."""
        for gvk, name in (
            (GroupVersionKind(*crds.PROVENANCE_POLICY.gvk), self.policy),
            (NAMESPACE, self.namespace),
        ):
            with contextlib.suppress(NotFoundError):
                await self._settled(functools.partial(self.admin.delete, gvk, name))


_SOURCES = ("gitrepositories", "ocirepositories", "buckets", "externalartifacts")
_KINDS = (*_SOURCES, "kustomizations", "provenancepolicies")


def named(gvk: GroupVersionKind, name: str, namespace: str) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}


def config_map(name: str, namespace: str, **data: str) -> Json:
    return named(CONFIG_MAP, name, namespace) | {"data": data}


def _pod(app: str, image: str) -> Json:
    spec: Json = {"containers": [{"name": "app", "image": image}]}
    spec["terminationGracePeriodSeconds"] = 1  # what the end of a namespace waits for
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def workload(
    gvk: GroupVersionKind, namespace: str, *, image: str = "example.com/a:1", replicas: int = 2
) -> Json:
    name = gvk.kind.lower() if gvk != DEPLOYMENT else "web"
    template = _pod(name, image)
    more: Json = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
    if gvk == STATEFUL_SET:
        more["serviceName"] = name
    if gvk == JOB:
        template["spec"]["restartPolicy"] = "Never"
        more = {}
    return named(gvk, name, namespace) | {"spec": {**more, "template": template}}


def autoscaler(namespace: str, *, least: int) -> Json:
    """Return one that needs no metrics, because less than the least is there."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 9}
    gvk = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
    return named(gvk, "web", namespace) | {"spec": spec}


async def known(gate: Gate) -> None:
    """Wait until every part of the server knows the kinds."""
    kinds = [kind for kind in crds.KINDS if kind.plural in _KINDS]

    async def served() -> bool:
        gate.admin.mapper.invalidate()
        with contextlib.suppress(ApiError):
            for kind in kinds:
                await gate.admin.list(GroupVersionKind(*kind.gvk))
            return True
        return False

    await gate.until(served)
