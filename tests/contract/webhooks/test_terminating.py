"""What is on its way out can go, and is not a way around: a finalizer keeps it there for ever."""

import pytest

from tests.contract.webhooks.tenants import (
    GIT_REPOSITORY,
    NAMESPACE,
    OWN,
    RBAC,
    REQUIRE_ACCOUNT,
    Tenant,
)
from tests.tools import namespaces
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.objects import GroupVersionKind, Json
from toolkit.policy.provenance import LABEL as PROVENANCE

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROLE_BINDING = GroupVersionKind(RBAC, "v1", "RoleBinding")
KEPT = "example.com/kept"
FREED = {"metadata": {"finalizers": None}}


def forged(tenant: Tenant) -> Json:
    """Return a status that says of content from elsewhere that it was verified."""
    return {
        "status": {
            "artifact": {
                "digest": "sha256:" + "0" * 64,
                "lastUpdateTime": "2026-01-01T00:00:00Z",
                "path": "p",
                "revision": "main@sha1:1",
                "url": f"https://evil.example/gitrepository/{tenant.namespace}/app/p.tar.gz",
                "metadata": {"penstock.dev/verified": "forged"},
            }
        }
    }


async def test_status_of_a_source_on_its_way_out_is_not_forged(tenant: Tenant) -> None:
    write = {"verbs": ["get", "create", "patch", "update", "delete"]}
    jane = await tenant.may("jane", OWN | write)
    source = tenant.repository()
    source["metadata"]["finalizers"] = [KEPT]
    await jane.create(source)
    name = ("app", tenant.namespace)

    await jane.delete(GIT_REPOSITORY, *name)
    with pytest.raises(ForbiddenError, match="only the source controller, and users with the verb"):
        await jane.patch(
            GIT_REPOSITORY, *name, forged(tenant), strategy="merge", subresource="status"
        )
    kept = await tenant.admin.get(GIT_REPOSITORY, *name)
    await jane.patch(GIT_REPOSITORY, *name, FREED, strategy="merge")

    assert kept["metadata"]["deletionTimestamp"]
    assert "artifact" not in kept.get("status", {})
    with pytest.raises(NotFoundError):
        await tenant.admin.get(GIT_REPOSITORY, *name)


async def test_a_namespace_on_its_way_out_keeps_its_labels(tenant: Tenant) -> None:
    """One object with a finalizer keeps a namespace, and what runs in it, for ever."""
    for label in (f"{REQUIRE_ACCOUNT}=true", f"{PROVENANCE}=production"):
        await tenant.kubectl.run("label", "namespace", tenant.namespace, label)
    every = ["namespaces", "namespaces/status", "namespaces/finalize"]
    rule = {"apiGroups": [""], "resources": every, "verbs": ["*"]}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "owners"}}
    await tenant.admin.apply({**role, "rules": [rule]}, manager="test")
    await tenant.may("olga", role="owners")
    # The binding is the object: otherwise the namespace's controller would take the rights away.
    held = (ROLE_BINDING, "olga", tenant.namespace)
    await tenant.admin.patch(*held, {"metadata": {"finalizers": [KEPT]}}, strategy="merge")
    patch = ("patch", "namespace", tenant.namespace, "--as=olga", "--type=merge", "-p")
    bare = f'{{"metadata":{{"labels":{{"{REQUIRE_ACCOUNT}":null,"{PROVENANCE}":null}}}}}}'
    free = '{"metadata":{"labels":{"team":"a"},"annotations":{"a":"b"}}}'

    await tenant.kubectl.run("delete", "namespace", tenant.namespace, "--wait=false")
    tried = (*patch, bare, "--dry-run=server")
    refused = {
        "itself": await tenant.kubectl.refused(*tried),
        "status": await tenant.kubectl.refused(*tried, "--subresource=status"),
    }
    allowed = await tenant.kubectl.run(*patch, free)
    labels = (await tenant.admin.get(NAMESPACE, tenant.namespace, ""))["metadata"]["labels"]
    await tenant.admin.patch(*held, FREED, strategy="merge")

    assert all("which user 'olga' may not change" in text for text in refused.values()), refused
    assert "patched" in allowed
    assert labels.items() >= {REQUIRE_ACCOUNT: "true", PROVENANCE: "production"}.items()
    await namespaces.gone(tenant.admin, tenant.namespace)
