"""References, borrowed accounts, sources and labels, through a real API server."""

from typing import Any

import pytest

from tests.contract.webhooks.tenants import (
    GIT_REPOSITORY,
    HELM_RELEASE,
    KUSTOMIZATION,
    OWN,
    RBAC,
    REQUIRE_ACCOUNT,
    ROWS,
    Tenant,
)
from tests.tools import namespaces
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json
from toolkit.policy import authorship
from toolkit.policy.authorship import AUTHOR
from toolkit.policy.provenance import LABEL as PROVENANCE

IMAGES = "image.toolkit.fluxcd.io"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def grant(tenant: Tenant, there: str) -> Json:
    of = {"group": KUSTOMIZATION.group, "kind": "Kustomization", "namespace": tenant.namespace}
    return {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "guests", "namespace": there},
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
    there = await namespaces.create(tenant.admin)
    obj = tenant.kustomization(sourceRef={**THERE, "namespace": there})
    nowhere = tenant.kustomization(sourceRef={**THERE, "namespace": "nowhere"})

    absent = await tenant.kubectl.refused("create", obj=nowhere)
    refused = {name: await tenant.kubectl.refused(*way, obj=obj) for name, way in WAYS.items()}
    await tenant.admin.apply(grant(tenant, there), manager="test")

    async def granted() -> bool:
        return "created" in await tenant.kubectl.answer("create", "--dry-run=server", obj=obj)

    await tenant.gate.until(granted)
    for way in WAYS.values():
        await tenant.kubectl.run(*way, obj=obj)

    for text in refused.values():
        assert "spec.sourceRef: can't access 'GitRepository/" in text
        assert f"no ReferenceGrant in namespace '{there}'" in text
    assert denial(absent, "nowhere") == denial(refused["create"], there)


async def test_a_release_takes_no_chart_and_reads_nothing_without_a_grant(tenant: Tenant) -> None:
    there = await namespaces.create(tenant.admin)
    source = {"kind": "HelmRepository", "name": "charts", "namespace": there}
    reading = {"kind": "Kustomization", "name": "infra", "namespace": there}
    expression = {"readyExpr": "dep.status.x == 1"}
    wrong = {
        "spec.chart.spec.sourceRef": tenant.release(
            chartRef=None, chart={"spec": {"chart": "app", "sourceRef": source}}
        ),
        "spec.chartRef": tenant.release(
            chartRef={"kind": "OCIRepository", "name": "app", "namespace": there}
        ),
        "spec.dependsOn[0]": tenant.release(dependsOn=[reading | expression]),
    }

    refused = {field: await tenant.kubectl.refused("create", obj=o) for field, o in wrong.items()}
    await tenant.kubectl.run("create", obj=tenant.release(dependsOn=[reading]))

    for field, text in refused.items():
        assert f"{field}: can't access" in text
        assert f"no ReferenceGrant in namespace '{there}'" in text


async def test_a_release_lends_only_what_its_author_holds(tenant: Tenant) -> None:
    use = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["robot"]}
    await tenant.may("jane", OWN, {**use, "verbs": ["use"]})
    values = [{"kind": "ConfigMap", "name": "open"}, {"kind": "Secret", "name": "hidden"}]
    remote = {"secretRef": {"name": "far"}}

    async def refused(**spec: Any) -> str:
        return await tenant.kubectl.refused("create", "--as=jane", obj=tenant.release(**spec))

    nobody = await refused()
    other = await refused(serviceAccountName="admin")
    reading = await refused(serviceAccountName="robot", valuesFrom=values)
    entering = await refused(serviceAccountName="robot", kubeConfig=remote)
    own = tenant.release("own", serviceAccountName="robot", valuesFrom=values[:1])
    created = await tenant.kubectl.run("create", "--as=jane", obj=own)
    swap = '{"spec":{"serviceAccountName":"admin"}}'
    patch = ("patch", "--as=jane", "helmrelease", "own", "--type=merge", "-p")
    swapped = await tenant.kubectl.refused(*patch, swap)

    assert "helm-applier" in nobody
    for text, field, what in (
        (other, "spec.serviceAccountName", f"serviceaccounts '{tenant.namespace}/admin'"),
        (reading, "spec.valuesFrom[1]", f"secrets '{tenant.namespace}/hidden'"),
        (entering, "spec.kubeConfig.secretRef", f"secrets '{tenant.namespace}/far'"),
        (swapped, "spec.serviceAccountName", f"serviceaccounts '{tenant.namespace}/admin'"),
    ):
        assert field in text
        assert f"{what}, which user 'jane' may not use" in text
    assert "created" in created


async def test_what_a_revoked_grant_allowed_can_still_be_cleaned_up(tenant: Tenant) -> None:
    there = await namespaces.create(tenant.admin)
    await tenant.admin.apply(grant(tenant, there), manager="test")
    obj = tenant.kustomization(sourceRef={**THERE, "namespace": there})
    obj["metadata"]["finalizers"] = ["finalizers.fluxcd.io"]

    async def granted() -> bool:
        return "created" in await tenant.kubectl.answer("create", obj=obj)

    await tenant.gate.until(granted)
    gvk = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ReferenceGrant")
    await tenant.admin.delete(gvk, "guests", there)

    async def revoked() -> bool:
        return "no ReferenceGrant" in await tenant.kubectl.answer(
            "create", "--dry-run=server", obj={**obj, "metadata": {"name": "probe"}}
        )

    await tenant.gate.until(revoked)
    await tenant.kubectl.run("label", "kustomization", "app", "a=b")
    await tenant.kubectl.run("delete", "kustomization", "app", "--wait=false")
    bare = '{"metadata":{"finalizers":null}}'
    await tenant.kubectl.run("patch", "kustomization", "app", "--type=merge", "-p", bare)

    assert "NotFound" in await tenant.kubectl.refused("get", "kustomization", "app")


async def test_tenant_enters_no_cluster_as_the_controller(tenant: Tenant) -> None:
    use = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["use"]}
    await tenant.may("jane", OWN, use)
    data = {"provider": "aws", "cluster": "arn:aws:eks:eu-west-1:111122223333:cluster/far"}
    metadata = {"name": "far", "namespace": tenant.namespace}
    far: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    await tenant.admin.apply(far, manager="test")
    obj = tenant.kustomization(kubeConfig={"configMapRef": {"name": "far"}})

    refused = await tenant.kubectl.refused("create", "--as=jane", obj=obj)
    data["serviceAccountName"] = "robot"
    await tenant.admin.apply(far, manager="test")
    await tenant.kubectl.run("create", "--as=jane", obj=obj)

    assert "spec.kubeConfig.configMapRef: ConfigMap far: serviceAccountName is missing" in refused


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

    nobody = await tenant.kubectl.refused("create", "--as=jane", obj=tenant.kustomization())
    other = await tenant.kubectl.refused(
        "create", "--as=jane", obj=tenant.kustomization(serviceAccountName="admin")
    )
    await jane.apply(tenant.kustomization(serviceAccountName="robot"), manager="test")
    edits = await tenant.kubectl.run(
        "create", "--as=eddy", obj=tenant.kustomization("e", serviceAccountName="admin")
    )
    swap = '{"spec":{"serviceAccountName":"admin"}}'
    swapped = await tenant.kubectl.refused(
        "patch", "--as=jane", "kustomization", "app", "--type=merge", "-p", swap
    )
    suspended = await tenant.kubectl.run(
        *("patch", "--as=jane", "kustomization", "e", "--type=merge"),
        *("-p", '{"spec":{"suspend":true}}'),
    )

    assert "would act as" in nobody
    assert "kustomize-applier" in nobody
    assert f"serviceaccounts '{tenant.namespace}/admin', which user 'jane' may not use" in other
    assert "created" in edits
    assert "may not use" in swapped
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

    ways = {
        name: await tenant.kubectl.refused(*way, "--as=jane", obj=git) for name, way in WAYS.items()
    }
    ways["older"] = await tenant.kubectl.refused("create", "--as=jane", obj=older)
    await tenant.admin.create(theirs)
    swap = '{"spec":{"url":"https://evil.example/app"}}'
    patch = ("patch", "--as=jane", "gitrepository", "theirs", "--type=merge", "-p")
    ways["patch"] = await tenant.kubectl.refused(*patch, swap)
    suspended = await tenant.kubectl.run(*patch, '{"spec":{"suspend":true}}')
    open_to_all = await tenant.kubectl.run("create", "--as=jane", obj=tenant.repository())

    denied = f"secrets '{tenant.namespace}/deploy-key', which user 'jane' may not use"
    assert all(denied in text for text in ways.values()), ways
    assert "patched" in suspended
    assert "created" in open_to_all


async def test_tenant_uses_no_secret_of_others_in_any_field(tenant: Tenant) -> None:
    there = await namespaces.create(tenant.admin)
    own = {**OWN, "apiGroups": [*OWN["apiGroups"], IMAGES]}
    mallory = await tenant.may("mallory", own)
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    holder = await tenant.may("holder", own, secrets)
    source = {"kind": "HelmRepository", "name": "charts", "namespace": there}
    keys = {"provider": "cosign", "secretRef": {"name": "keys"}}
    verified = {"sourceRef": source, "chart": "a", "verify": keys}
    release = tenant.release(serviceAccountName="robot", chart={"spec": verified})
    del release["spec"]["chartRef"]
    automation = tenant.automation()
    proxied = tenant.repository(proxySecretRef={"name": "proxy"})
    await tenant.admin.apply(tenant.repository(secretRef={"name": "deploy"}), manager="test")

    with pytest.raises(ForbiddenError) as pushing:
        await mallory.apply(automation, manager="test", dry_run=True)
    with pytest.raises(ForbiddenError) as proxying:
        await mallory.apply(proxied, manager="test", dry_run=True, force=True)
    consent = grant(tenant, there)
    consent["spec"]["from"][0] |= {"group": HELM_RELEASE.group, "kind": HELM_RELEASE.kind}
    consent["spec"]["to"][0]["kind"] = "HelmRepository"
    await tenant.admin.apply(consent, manager="test")
    told: list[str] = []

    async def granted() -> bool:
        with pytest.raises(ForbiddenError) as caught:
            await holder.apply(release, manager="test", dry_run=True)
        told.append(str(caught.value))
        return "no ReferenceGrant" not in told[-1]

    await tenant.gate.until(granted)
    await holder.apply(automation, manager="test", dry_run=True)

    assert "spec.sourceRef needs the credentials of GitRepository 'app'" in str(pushing.value)
    assert "deploy" not in str(pushing.value)
    assert f"secrets '{tenant.namespace}/proxy'" in str(proxying.value)
    assert f"spec.chart.spec.verify.secretRef needs secrets '{there}/keys'" in told[-1]


async def test_the_author_of_an_automation_is_recorded(tenant: Tenant) -> None:
    own = {**OWN, "apiGroups": [IMAGES]}
    mallory, bob = await tenant.may("mallory", own), await tenant.may("bob", own)
    await tenant.admin.apply(tenant.repository(), manager="test")
    automation = tenant.automation()
    forged = {"annotations": {AUTHOR: '{"user": "admin", "groups": ["system:masters"]}'}}

    def author(obj: Json) -> str:
        found = authorship.recorded(obj)
        assert found is not None
        assert "system:authenticated" in found.groups
        return found.name

    made = await mallory.apply(
        {**automation, "metadata": automation["metadata"] | forged}, manager="mallory"
    )
    again = await bob.apply(automation, manager="mallory", force=True)
    spec = {"spec": {"interval": "5m"}}
    gvk = GroupVersionKind(IMAGES, "v1", "ImageUpdateAutomation")
    place = (gvk, "pushes", tenant.namespace)
    paced = await bob.patch(*place, spec, strategy="merge")
    dropped = await bob.patch(
        *place, {"metadata": {"annotations": {AUTHOR: None}}}, strategy="merge"
    )
    taken = await bob.patch(*place, {"metadata": forged}, strategy="merge")
    changed = await mallory.patch(
        *place, {"spec": {"update": {"path": "apps", "strategy": "Setters"}}}, strategy="merge"
    )

    assert [author(each) for each in (made.object, again.object, paced, dropped)] == ["mallory"] * 4
    assert author(taken) == "bob"
    assert author(changed) == "mallory"


async def test_tenant_cannot_relabel_its_namespace(tenant: Tenant) -> None:
    labelled = await tenant.kubectl.run(
        "label", "namespace", tenant.namespace, f"{REQUIRE_ACCOUNT}=true"
    )
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
    bare = (
        "--as=olga",
        "--type=merge",
        "-p",
        f'{{"metadata":{{"labels":{{"{REQUIRE_ACCOUNT}":null}}}}}}',
    )
    free = ("--as=olga", "--type=merge", "-p", '{"metadata":{"labels":{"team":"a"}}}')

    refused = {name: await tenant.kubectl.refused(*way, *bare) for name, way in ways.items()}
    await tenant.kubectl.run("label", "namespace", tenant.namespace, f"{PROVENANCE}=production")
    other = f'{{"metadata":{{"labels":{{"{PROVENANCE}":"free"}}}}}}'
    for name, way in ways.items():
        refused[f"{name}, other"] = await tenant.kubectl.refused(
            *way, "--as=olga", "--type=merge", "-p", other
        )
    for way in ways.values():
        await tenant.kubectl.run(*way, *free)

    assert "labeled" in labelled
    assert all("which user 'olga' may not change" in text for text in refused.values()), refused


async def test_namespace_that_requires_an_account_says_so(tenant: Tenant) -> None:
    await tenant.kubectl.run("label", "namespace", tenant.namespace, f"{REQUIRE_ACCOUNT}=true")

    async def required() -> bool:
        return "spec.serviceAccountName must be set" in await tenant.kubectl.answer(
            "create", "--dry-run=server", obj=tenant.kustomization()
        )

    await tenant.gate.until(required)


async def enforced(tenant: Tenant, **spec: Any) -> None:
    """Apply a policy and wait until it is known."""
    await tenant.admin.apply(tenant.policy(**spec), manager="test")
    probe = tenant.repository("https://gitlab.com/evil/app")

    async def known() -> bool:
        return "SourcePolicy" in await tenant.kubectl.answer(
            "create", "--dry-run=server", obj=probe
        )

    await tenant.gate.until(known)


async def test_source_that_a_policy_forbids_is_refused_in_every_version(tenant: Tenant) -> None:
    await enforced(tenant)
    old = {
        "apiVersion": "source.toolkit.fluxcd.io/v1beta2",
        "kind": "HelmRepository",
        "metadata": {"name": "charts", "namespace": tenant.namespace},
        "spec": {"interval": "1m", "url": "https://charts.example"},
    }

    good = await tenant.kubectl.run("apply", obj=tenant.repository())
    elsewhere = tenant.repository("https://gitlab.com/a/b")
    moved_away = await tenant.kubectl.refused("apply", obj=elsewhere)
    older = await tenant.kubectl.refused("create", obj=old)

    assert "created" in good
    assert "spec.url: 'https://gitlab.com/a/b' is not allowed" in moved_away
    assert "HelmRepository is not allowed here; use one of: GitRepository" in older


@pytest.mark.parametrize(
    "escape",
    [
        *("..;", "..;x=y", "%2e%2e;", "..%3b", "%252e%252e", "..%252f..", "%u002e%u002e"),
        *("..%5c", "%c0%ae%c0%ae", "..%20", ";", "", "."),
    ],
)
async def test_path_that_some_servers_resolve_is_refused(tenant: Tenant, escape: str) -> None:
    await enforced(tenant)
    evil = tenant.repository(f"https://github.com/acme/{escape}/evil/app")
    plain = tenant.repository("https://github.com/acme/My%20Team/~kim/app+tools.git")

    refused = await tenant.kubectl.refused("create", "--dry-run=server", obj=evil)
    admitted = await tenant.kubectl.run("create", "--dry-run=server", obj=plain)

    assert "spec.url: it cannot be compared" in refused
    assert "created" in admitted


async def test_policy_that_warns_is_heard(tenant: Tenant) -> None:
    await tenant.admin.apply(tenant.policy(mode="Warn"), manager="test")
    evil = tenant.repository("https://gitlab.com/evil/app")

    async def warned() -> str:
        said = await tenant.kubectl.run("create", "--dry-run=server", obj=evil)
        return said if "Warning" in said else ""

    told = await tenant.gate.until(warned)
    assert "Warning: spec.url: 'https://gitlab.com/evil/app' is not allowed" in told


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "none"])
async def test_status_of_a_source_is_not_forged(tenant: Tenant, *, policy: bool) -> None:
    if policy:
        await enforced(tenant)
    # anyone who may do anything with sources may also vouch for them
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
    controller = f"system:serviceaccount:{tenant.gate.installed}:source-controller"
    await tenant.may(controller, OWN)

    with pytest.raises(ForbiddenError, match="only the source controller, and users with the verb"):
        await jane.patch(GIT_REPOSITORY, *name, body, strategy="merge", subresource="status")
    written = await tenant.admin.impersonating(controller).patch(
        GIT_REPOSITORY, *name, body, strategy="merge", subresource="status"
    )

    forged = {"status": {"artifact": {**artifact, "path": "q"}}}
    with pytest.raises(ForbiddenError, match="only the source controller, and users with the verb"):
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
    await tenant.kubectl.run("label", "namespace", tenant.namespace, f"{REQUIRE_ACCOUNT}=true")
    await tenant.admin.create(tenant.kustomization(serviceAccountName="robot"))
    async with tenant.gate.away(*ROWS):
        refused = await tenant.kubectl.refused("create", obj=tenant.kustomization("late"))

        await tenant.admin.delete(namespaces.NAMESPACE, tenant.namespace)

        await namespaces.gone(tenant.admin, tenant.namespace)
        assert "failed calling webhook" in refused


async def test_object_with_thousands_of_references_is_denied(tenant: Tenant) -> None:
    needs = [{"name": "x", "namespace": f"n{number}"} for number in range(5000)]

    with pytest.raises(ForbiddenError, match="5000 objects of other namespaces"):
        await tenant.admin.create(tenant.kustomization(dependsOn=needs))


async def test_an_account_is_not_borrowed_beside_a_finalizer(tenant: Tenant) -> None:
    mallory = await tenant.may("mallory", OWN)
    await tenant.admin.create(tenant.kustomization(serviceAccountName="app"))
    both: Json = {
        "metadata": {
            "finalizers": ["example.com/held"],
            "annotations": {"reconcile.fluxcd.io/requestedAt": "now"},
        },
        "spec": {"serviceAccountName": "cluster-admin"},
    }

    for body in (both, {"spec": both["spec"]}):
        with pytest.raises(ForbiddenError, match=r"spec\.serviceAccountName"):
            await mallory.patch(KUSTOMIZATION, "app", tenant.namespace, body, strategy="merge")
    await mallory.patch(
        KUSTOMIZATION, "app", tenant.namespace, {"metadata": both["metadata"]}, strategy="merge"
    )

    left = await tenant.admin.get(KUSTOMIZATION, "app", tenant.namespace)
    assert left["spec"]["serviceAccountName"] == "app"
    assert left["metadata"]["finalizers"] == ["example.com/held"]
