"""References, borrowed accounts, sources and labels, through a real API server."""

import asyncio
import subprocess
from typing import Any

import pytest
import yaml

from tests.contract.webhooks.tenants import (
    GIT_REPOSITORY,
    KUSTOMIZATION,
    RBAC,
    Tenant,
)
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json
from toolkit.policy.provenance import LABEL as PROVENANCE

LABEL = "policy.penstock.dev/require-service-account"


def grant(tenant: Tenant) -> Json:
    of = {"group": KUSTOMIZATION.group, "kind": "Kustomization", "namespace": tenant.namespace}
    return {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "guests", "namespace": tenant.gate.namespace},
        "spec": {"from": [of], "to": [{"group": GIT_REPOSITORY.group, "kind": "GitRepository"}]},
    }


def denial(text: str, target: str) -> str:
    """Return the words of a denial without the name of the target's namespace."""
    said = text.partition("denied the request")[2].partition("lets a")[0]
    return said.replace(f"/{target}/", "//").replace(f"'{target}'", "''")


THERE = {"kind": "GitRepository", "name": "fleet"}


WAYS = {
    "create": ("create", "--dry-run=server"),
    "apply": ("apply", "--dry-run=server"),
    "server-side": ("apply", "--server-side"),
    "dry-run": ("apply", "--server-side", "--dry-run=server"),
}


async def test_kubectl_is_told_which_grant_is_missing(tenant: Tenant) -> None:
    obj = tenant.kustomization(sourceRef={**THERE, "namespace": tenant.gate.namespace})
    nowhere = tenant.kustomization(sourceRef={**THERE, "namespace": "nowhere"})

    absent = await tenant.kubectl("create", obj=nowhere)
    refused = {name: await tenant.kubectl(*way, obj=obj) for name, way in WAYS.items()}
    await tenant.admin.apply(grant(tenant), manager="test")
    admitted = {name: await tenant.kubectl(*way, obj=obj) for name, way in WAYS.items()}

    for text in refused.values():
        assert "spec.sourceRef: can't access 'GitRepository/" in text
        assert f"no ReferenceGrant in namespace '{tenant.gate.namespace}'" in text
    assert denial(absent, "nowhere") == denial(refused["create"], tenant.gate.namespace)
    assert not [text for text in admitted.values() if text.startswith("failed")], admitted


async def test_what_a_revoked_grant_allowed_can_still_be_cleaned_up(tenant: Tenant) -> None:
    await tenant.admin.apply(grant(tenant), manager="test")
    obj = tenant.kustomization(sourceRef={**THERE, "namespace": tenant.gate.namespace})
    obj["metadata"]["finalizers"] = ["finalizers.fluxcd.io"]
    await tenant.admin.create(obj)
    gvk = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ReferenceGrant")
    await tenant.admin.delete(gvk, "guests", tenant.gate.namespace)

    async def revoked() -> bool:
        return "no ReferenceGrant" in await tenant.kubectl(
            "create", "--dry-run=server", obj={**obj, "metadata": {"name": "probe"}}
        )

    await tenant.gate.until(revoked)
    labelled = await tenant.kubectl("label", "kustomization", "app", "a=b")
    await tenant.kubectl("delete", "kustomization", "app", "--wait=false")
    bare = '{"metadata":{"finalizers":null}}'
    freed = await tenant.kubectl("patch", "kustomization", "app", "--type=merge", "-p", bare)
    left = await tenant.kubectl("get", "kustomization", "app")

    assert "labeled" in labelled
    assert not freed.startswith("failed"), freed
    assert "NotFound" in left


OWN = {
    "apiGroups": [KUSTOMIZATION.group, GIT_REPOSITORY.group],
    "resources": ["*"],
    "verbs": ["*"],
}


async def test_tenant_enters_no_cluster_as_the_controller(tenant: Tenant) -> None:
    use = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["use"]}
    await tenant.may("jane", OWN, use)
    data = {"provider": "aws", "cluster": "arn:aws:eks:eu-west-1:111122223333:cluster/far"}
    metadata = {"name": "far", "namespace": tenant.namespace}
    far: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    await tenant.admin.apply(far, manager="test")
    obj = tenant.kustomization(kubeConfig={"configMapRef": {"name": "far"}})

    refused = await tenant.kubectl("create", "--as=jane", obj=obj)
    data["serviceAccountName"] = "robot"
    await tenant.admin.apply(far, manager="test")
    admitted = await tenant.kubectl("create", "--as=jane", obj=obj)

    assert "spec.kubeConfig.configMapRef: ConfigMap far: serviceAccountName is missing" in refused
    assert "created" in admitted


async def test_tenant_lends_only_accounts_that_they_hold(tenant: Tenant) -> None:
    use = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["robot"]}
    jane = await tenant.may("jane", OWN, {**use, "verbs": ["use"]})
    await tenant.may("eddy", OWN)
    metadata = {"name": "eddy-edits", "namespace": tenant.namespace}
    await tenant.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "eddy"}],
        },
        manager="test",
    )

    nobody = await tenant.kubectl("create", "--as=jane", obj=tenant.kustomization())
    other = await tenant.kubectl(
        "create", "--as=jane", obj=tenant.kustomization(serviceAccountName="admin")
    )
    await jane.apply(tenant.kustomization(serviceAccountName="robot"), manager="test")
    edits = await tenant.kubectl(
        "create", "--as=eddy", obj=tenant.kustomization("e", serviceAccountName="admin")
    )
    swap = '{"spec":{"serviceAccountName":"admin"}}'
    swapped = await tenant.kubectl(
        "patch", "--as=jane", "kustomization", "app", "--type=merge", "-p", swap
    )
    suspended = await tenant.kubectl(
        *("patch", "--as=jane", "kustomization", "e", "--type=merge"),
        *("-p", '{"spec":{"suspend":true}}'),
    )

    assert "would act as" in nobody
    assert "kustomize-applier" in nobody
    assert f"serviceaccounts '{tenant.namespace}/admin', which user 'jane' may not lend" in other
    assert "created" in edits
    assert "may not lend" in swapped
    assert "patched" in suspended


async def test_tenant_sends_no_credentials_that_they_may_not_read(tenant: Tenant) -> None:
    await tenant.may("jane", OWN)
    git = tenant.repository("https://evil.example/app", secretRef={"name": "deploy-key"})
    older = {
        "apiVersion": "source.toolkit.fluxcd.io/v1beta2",
        "kind": "HelmRepository",
        "metadata": {"name": "charts", "namespace": tenant.namespace},
        "spec": {
            "interval": "1m",
            "url": "https://evil.example",
            "secretRef": {"name": "deploy-key"},
        },
    }
    theirs = tenant.repository(secretRef={"name": "deploy-key"})
    theirs["metadata"]["name"] = "theirs"

    ways = {name: await tenant.kubectl(*way, "--as=jane", obj=git) for name, way in WAYS.items()}
    ways["older"] = await tenant.kubectl("create", "--as=jane", obj=older)
    await tenant.admin.create(theirs)
    swap = '{"spec":{"url":"https://evil.example/app"}}'
    patch = ("patch", "--as=jane", "gitrepository", "theirs", "--type=merge", "-p")
    ways["patch"] = await tenant.kubectl(*patch, swap)
    suspended = await tenant.kubectl(*patch, '{"spec":{"suspend":true}}')
    open_to_all = await tenant.kubectl("create", "--as=jane", obj=tenant.repository())

    denied = f"secrets '{tenant.namespace}/deploy-key', which user 'jane' may not lend"
    assert all(denied in text for text in ways.values()), ways
    assert "patched" in suspended
    assert "created" in open_to_all


async def test_tenant_cannot_relabel_its_namespace(tenant: Tenant) -> None:
    labelled = await tenant.kubectl("label", "namespace", tenant.namespace, f"{LABEL}=true")
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "owners"}}
    every = ["namespaces", "namespaces/status", "namespaces/finalize"]
    rule = {"apiGroups": [""], "resources": every, "verbs": ["*"]}
    await tenant.admin.apply({**role, "rules": [rule]}, manager="test")
    await tenant.may("olga", role="owners")
    # what names a namespace is authorized in it
    ways = {
        "itself": ("patch", "namespace", tenant.namespace),
        "status": ("patch", "namespace", tenant.namespace, "--subresource=status"),
    }
    bare = ("--as=olga", "--type=merge", "-p", f'{{"metadata":{{"labels":{{"{LABEL}":null}}}}}}')
    free = ("--as=olga", "--type=merge", "-p", '{"metadata":{"labels":{"team":"a"}}}')

    refused = {name: await tenant.kubectl(*way, *bare) for name, way in ways.items()}
    await tenant.kubectl("label", "namespace", tenant.namespace, f"{PROVENANCE}=production")
    other = f'{{"metadata":{{"labels":{{"{PROVENANCE}":"free"}}}}}}'
    for name, way in ways.items():
        refused[f"{name}, other"] = await tenant.kubectl(
            *way, "--as=olga", "--type=merge", "-p", other
        )
    allowed = {name: await tenant.kubectl(*way, *free) for name, way in ways.items()}

    assert "labeled" in labelled
    assert all("which user 'olga' may not change" in text for text in refused.values()), refused
    assert not any(text.startswith("failed") for text in allowed.values()), allowed


async def test_namespace_that_requires_an_account_says_so(tenant: Tenant) -> None:
    await tenant.kubectl("label", "namespace", tenant.namespace, f"{LABEL}=true")

    async def required() -> bool:
        return "spec.serviceAccountName must be set" in await tenant.kubectl(
            "create", "--dry-run=server", obj=tenant.kustomization()
        )

    await tenant.gate.until(required)


async def enforced(tenant: Tenant, **spec: Any) -> None:
    """Apply a policy and wait until it is known."""
    await tenant.admin.apply(tenant.policy(**spec), manager="test")
    probe = tenant.repository("https://gitlab.com/evil/app")

    async def known() -> bool:
        return "SourcePolicy" in await tenant.kubectl("create", "--dry-run=server", obj=probe)

    await tenant.gate.until(known)


async def test_source_that_a_policy_forbids_is_refused_in_every_version(tenant: Tenant) -> None:
    await enforced(tenant)
    old = {
        "apiVersion": "source.toolkit.fluxcd.io/v1beta2",
        "kind": "HelmRepository",
        "metadata": {"name": "charts", "namespace": tenant.namespace},
        "spec": {"interval": "1m", "url": "https://charts.example"},
    }

    good = await tenant.kubectl("apply", obj=tenant.repository())
    moved_away = await tenant.kubectl("apply", obj=tenant.repository("https://gitlab.com/a/b"))
    older = await tenant.kubectl("create", obj=old)

    assert "created" in good
    assert "spec.url: 'https://gitlab.com/a/b' is not allowed" in moved_away
    assert "HelmRepository is not allowed here; use one of: GitRepository" in older


def warnings(tenant: Tenant, manifest: str) -> str:
    """Return what kubectl says beside its output when it tries to create this."""
    plane = tenant.gate.control_plane
    command = [str(plane.kubectl_program), f"--kubeconfig={plane.kubeconfig}", "create", "-f", "-"]
    ran: subprocess.CompletedProcess[str] = subprocess.run(
        [*command, "--dry-run=server"],
        input=manifest,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return ran.stderr


async def test_policy_that_warns_is_heard(tenant: Tenant) -> None:
    await tenant.admin.apply(tenant.policy(mode="Warn"), manager="test")
    evil = yaml.safe_dump(tenant.repository("https://gitlab.com/evil/app"))

    async def warned() -> str:
        return await asyncio.to_thread(warnings, tenant, evil)

    told = await tenant.gate.until(warned)
    assert "Warning: spec.url: 'https://gitlab.com/evil/app' is not allowed" in told


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "none"])
async def test_status_of_a_source_is_not_forged(tenant: Tenant, *, policy: bool) -> None:
    if policy:
        await enforced(tenant)
    # whoever may do anything with sources may also vouch for them
    write = {"verbs": ["get", "create", "patch", "update"]}
    # the same name in a namespace that we are not installed in is anybody's
    usual = "system:serviceaccount:penstock-system:source-controller"
    await tenant.may(usual, OWN | write)
    jane = await tenant.may("jane", OWN | write)
    await tenant.admin.create(tenant.repository())
    artifact = {
        "digest": "sha256:" + "0" * 64,
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "path": "p",
        "revision": "main@sha1:1",
        "url": "https://evil.example/p",
    }
    name = ("app", tenant.namespace)
    body = {"status": {"artifact": artifact}}
    controller = f"system:serviceaccount:{tenant.gate.namespace}:source-controller"
    await tenant.may(controller, OWN)

    with pytest.raises(ForbiddenError, match="only the source controller vouches"):
        await jane.patch(GIT_REPOSITORY, *name, body, strategy="merge", subresource="status")
    written = await tenant.admin.impersonating(controller).patch(
        GIT_REPOSITORY, *name, body, strategy="merge", subresource="status"
    )

    forged = {"status": {"artifact": {**artifact, "path": "q"}}}
    with pytest.raises(ForbiddenError, match="only the source controller vouches"):
        await tenant.admin.impersonating(usual).patch(
            GIT_REPOSITORY, *name, forged, strategy="merge", subresource="status"
        )
    metadata = {"metadata": {"finalizers": ["finalizers.fluxcd.io"]}}
    for change in (metadata, {"metadata": {"finalizers": None}}):
        await tenant.admin.impersonating(usual).patch(
            GIT_REPOSITORY, *name, change, strategy="merge"
        )

    assert written["status"]["artifact"]["path"] == "p"


async def test_labelled_namespace_goes_while_nobody_answers(tenant: Tenant) -> None:
    await tenant.kubectl("label", "namespace", tenant.namespace, f"{LABEL}=true")
    await tenant.admin.create(tenant.kustomization(serviceAccountName="robot"))
    await tenant.gate.replicas[0].stop()
    refused = await tenant.kubectl("create", obj=tenant.kustomization("late"))

    await tenant.kubectl("delete", "namespace", tenant.namespace, "--wait=false")

    async def gone() -> bool:
        return "NotFound" in await tenant.kubectl("get", "namespace", tenant.namespace)

    await tenant.gate.until(gone)
    assert "failed calling webhook" in refused


async def test_object_with_thousands_of_references_is_denied(tenant: Tenant) -> None:
    needs = [{"name": "x", "namespace": f"n{number}"} for number in range(5000)]

    with pytest.raises(ForbiddenError, match="5000 objects of other namespaces"):
        await tenant.admin.create(tenant.kustomization(dependsOn=needs))
