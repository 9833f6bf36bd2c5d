"""Somebody with all rights in a namespace beside the one of the installation."""

import contextlib
from typing import TYPE_CHECKING, Any

import yaml

import crds
from tests.tools import kubectl, rights
from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json
from webhooks import references, sourcepolicy, tenancy

if TYPE_CHECKING:
    from tests.contract.webhooks.conftest import Gate

ROWS = (references.ROW, tenancy.TENANCY, tenancy.LABELS, sourcepolicy.ROW)
RBAC = "rbac.authorization.k8s.io"
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
CLUSTER_ROLE = GroupVersionKind(RBAC, "v1", "ClusterRole")
KUSTOMIZATION = GroupVersionKind(*crds.KUSTOMIZATION.gvk)
GIT_REPOSITORY = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)
SOURCE_POLICY = GroupVersionKind(*crds.SOURCE_POLICY.gvk)


class Tenant:
    """A namespace beside the one of the installation, and who works in it."""

    def __init__(self, gate: "Gate") -> None:
        self.gate = gate
        self.admin = gate.admin
        self.namespace = f"{gate.namespace}-team"

    async def open(self) -> None:
        """Install the rights, start the process, wait until it is asked."""
        self.admin.mapper.invalidate()
        await self.admin.create(self.space())
        await self.gate.start(*ROWS)
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        mallory = await self.may("mallory", rule)

        async def asked() -> bool:
            try:
                await mallory.apply(self.kustomization("probe"), manager="test", dry_run=True)
            except ForbiddenError as exc:
                return "denied the request" in str(exc)
            return False

        await self.gate.until(asked)

    async def close(self) -> None:
        """Delete what belongs to the cluster; the namespace need not be gone."""
        for gvk, name in ((SOURCE_POLICY, self.namespace), (NAMESPACE, self.namespace)):
            with contextlib.suppress(Exception):
                await self.admin.delete(gvk, name, "")

    def space(self, **labels: str) -> Json:
        metadata = {"name": self.namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

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

    def repository(self, url: str = "https://github.com/acme/app", **spec: Any) -> Json:
        return {
            "apiVersion": GIT_REPOSITORY.api_version,
            "kind": GIT_REPOSITORY.kind,
            "metadata": {"name": "app", "namespace": self.namespace},
            "spec": {"interval": "1m", "url": url, **spec},
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

    async def kubectl(self, *arguments: str, obj: Json | None = None) -> str:
        """Run kubectl in the namespace of the tenant."""
        text = yaml.safe_dump(obj) if obj else None
        line = [*arguments, *(("-f", "-") if obj else ())]
        line.append(f"--namespace={self.namespace}")
        return await kubectl.answer(self.gate.control_plane, *line, stdin=text)
