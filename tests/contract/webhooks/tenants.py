"""Somebody with all rights in a namespace beside the one of the installation."""

import contextlib
from typing import TYPE_CHECKING, Any

import crds
from tests.tools import rights
from tests.tools.kubectl import Kubectl
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ForbiddenError, NotFoundError
from toolkit.objects import GroupVersionKind, Json
from webhooks import authorship, references, sourcepolicy, tenancy

if TYPE_CHECKING:
    from tests.contract.webhooks.conftest import Gate

ROWS = (references.ROW, tenancy.TENANCY, authorship.ROW, tenancy.LABELS, sourcepolicy.ROW)
RBAC = "rbac.authorization.k8s.io"
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
CLUSTER_ROLE = GroupVersionKind(RBAC, "v1", "ClusterRole")
KUSTOMIZATION = GroupVersionKind(*crds.KUSTOMIZATION.gvk)
HELM_RELEASE = GroupVersionKind(*crds.HELM_RELEASE.gvk)
GIT_REPOSITORY = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)
SOURCE_POLICY = GroupVersionKind(*crds.SOURCE_POLICY.gvk)
IMAGE_UPDATE_AUTOMATION = GroupVersionKind(*crds.IMAGE_UPDATE_AUTOMATION.gvk)
REQUIRE_ACCOUNT = "policy.penstock.dev/require-service-account"
OWN: Json = {
    "apiGroups": [KUSTOMIZATION.group, HELM_RELEASE.group, GIT_REPOSITORY.group],
    "resources": ["*"],
    "verbs": ["*"],
}


def old(namespace: str) -> Json:
    """Return a GitRepository in a version that only the process can convert."""
    return {
        "apiVersion": f"{GIT_REPOSITORY.group}/v1beta1",
        "kind": GIT_REPOSITORY.kind,
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {
            "url": "https://git.example.com/app.git",
            "interval": "5m",
            "timeout": "1h",
            "gitImplementation": "libgit2",
        },
    }


class Tenant:
    """A namespace beside the one of the installation, and who works in it."""

    def __init__(self, gate: "Gate", namespace: str) -> None:
        self.gate = gate
        self.admin = gate.admin
        self.namespace = namespace

    async def open(self) -> None:
        """Start the process, and wait until it is asked."""
        await self.gate.start(*ROWS)
        await self.gate.converting()
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        mallory = await self.may("mallory", rule)

        async def asked() -> bool:
            try:
                await mallory.apply(self.kustomization("probe"), manager="test", dry_run=True)
            except ForbiddenError as exc:
                return "denied the request" in str(exc)
            except ApiError:  # kinds are away for a moment while their definition is updated
                return False
            return False

        await self.gate.until(asked)

    async def close(self) -> None:
        """Delete what belongs to the cluster."""
        with contextlib.suppress(NotFoundError):
            await self.admin.delete(SOURCE_POLICY, self.namespace)

    def kustomization(self, name: str = "app", **spec: Any) -> Json:
        return {
            "apiVersion": KUSTOMIZATION.api_version,
            "kind": KUSTOMIZATION.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "interval": "1m",
                "prune": True,
                "sourceRef": {"kind": "GitRepository", "name": "app"},
                **spec,
            },
        }

    def release(self, name: str = "app", **spec: Any) -> Json:
        return {
            "apiVersion": HELM_RELEASE.api_version,
            "kind": HELM_RELEASE.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "interval": "1m",
                "chartRef": {"kind": "OCIRepository", "name": "app"},
                **spec,
            },
        }

    def repository(self, url: str = "https://github.com/acme/app", **spec: Any) -> Json:
        return {
            "apiVersion": GIT_REPOSITORY.api_version,
            "kind": GIT_REPOSITORY.kind,
            "metadata": {"name": "app", "namespace": self.namespace},
            "spec": {"interval": "1m", "url": url, **spec},
        }

    def automation(self) -> Json:
        return {
            "apiVersion": IMAGE_UPDATE_AUTOMATION.api_version,
            "kind": IMAGE_UPDATE_AUTOMATION.kind,
            "metadata": {"name": "pushes", "namespace": self.namespace},
            "spec": {
                "interval": "1m",
                "sourceRef": {"kind": "GitRepository", "name": "app"},
                "git": {"commit": {"author": {"email": "a@example.com"}}, "push": {"branch": "b"}},
            },
        }

    def policy(self, **spec: Any) -> Json:
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        allowed = {"kind": "GitRepository", "urls": ["https://github.com/acme/**"]}
        return {
            "apiVersion": SOURCE_POLICY.api_version,
            "kind": SOURCE_POLICY.kind,
            "metadata": {"name": self.namespace},
            "spec": {"namespaceSelector": selector, "sources": [allowed], **spec},
        }

    async def may(self, user: str, *rules: Json, role: str = "") -> Client:
        """Let a user do this in the namespace, or what a ClusterRole says; return their client.

        The API server has taken notice when it returns.
        """
        metadata = {"name": user, "namespace": self.namespace}
        ref = {"apiGroup": RBAC, "kind": "ClusterRole" if role else "Role", "name": role or user}
        subject = {"apiGroup": RBAC, "kind": "User", "name": user}
        made = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
        if rules:
            await self.admin.apply({**made, "kind": "Role", "rules": list(rules)}, manager="test")
        binding = {**made, "kind": "RoleBinding", "roleRef": ref, "subjects": [subject]}
        await self.admin.apply(binding, manager="test")
        told = rules or (await self.admin.get(CLUSTER_ROLE, role))["rules"]
        await rights.noticed(self.admin, user, *told, namespace=self.namespace)
        return self.admin.impersonating(user)

    @property
    def kubectl(self) -> Kubectl:
        """Return kubectl of the administrator in the namespace of the tenant."""
        return Kubectl(plane=self.gate.control_plane, namespace=self.namespace)
