"""A protected namespace behind a real API server: what rolls, and who is refused and told what."""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

import crds
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.contract.webhooks.shops import (
    AUTOSCALER,
    DEPLOYMENT,
    GIT_REPOSITORY,
    JOB,
    MANAGER,
    NAMESPACE,
    POD,
    ROWS,
    STATEFUL_SET,
    Shop,
    autoscaler,
    config_map,
    known,
    named,
    workload,
)
from tests.tools import namespaces, rights
from toolkit.apply.ownership import Owner
from toolkit.kube import impersonation
from toolkit.kube.errors import ApiError, ForbiddenError
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy.provenance import BREAK_GLASS, LABEL

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    """Run the webhook process for all tests of the module."""
    del definitions
    async with opened(control_plane) as gate:
        await known(gate)
        await gate.start(*ROWS)
        await gate.converting()
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def shop(guarded: Gate) -> AsyncIterator[Shop]:
    opened = Shop(guarded, f"shop-{secrets.token_hex(4)}")
    try:
        await opened.open()
        yield opened
    finally:
        await opened.close()


async def test_what_comes_from_a_repository_rolls_scales_and_goes(shop: Shop) -> None:
    for gvk in (DEPLOYMENT, STATEFUL_SET, JOB):
        await shop.apply(workload(gvk, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")
    await shop.rolled(STATEFUL_SET, "statefulset")
    assert await shop.gate.until(lambda: shop.pods("job"))
    before = {dig(pod, "metadata", "uid") for pod in await shop.pods()}

    # it rolls,
    await shop.apply(workload(DEPLOYMENT, shop.namespace, image="example.com/a:2"))
    await shop.rolled(DEPLOYMENT, "web")

    async def replaced() -> bool:
        return before.isdisjoint(dig(pod, "metadata", "uid") for pod in await shop.pods())

    await shop.gate.until(replaced)
    # an autoscaler scales it,
    scaler = shop.admin.impersonating(AUTOSCALER)
    path = f"/apis/apps/v1/namespaces/{shop.namespace}/deployments/web/scale"
    scale = await scaler.request("GET", path)
    await scaler.request("PUT", path, body={**scale, "spec": {"replicas": 3}})
    await shop.rolled(DEPLOYMENT, "web")
    # also the real one, to the least that it is told to keep,
    await shop.apply(autoscaler(shop.namespace, least=4))

    async def scaled() -> bool:
        live = await shop.admin.get(DEPLOYMENT, "web", shop.namespace)
        return bool(dig(live, "spec", "replicas") == 4)

    await shop.gate.until(scaled)
    await shop.rolled(DEPLOYMENT, "web")
    # and the applier takes it away, with all that was made of it.
    ending = shop.applier(source="", revision="", digest="", verified="")
    await ending.delete(DEPLOYMENT, "web", shop.namespace)

    async def cleared() -> bool:
        return not await shop.pods()

    await shop.gate.until(cleared)


REFUSED: Sequence[tuple[str, ...]] = (
    ("patch", "deployment/web", "-p", '{"spec":{"paused":true}}'),
    ("set", "image", "deployment/web", "app=example.com/evil:1"),
    ("label", "deployment/web", "owner=alice"),
    ("annotate", "deployment/web", "kustomize.toolkit.fluxcd.io/reconcile=disabled"),
    ("label", "deployment/web", "kustomize.toolkit.fluxcd.io/name-"),
    ("rollout", "restart", "deployment/web"),
    ("delete", "deployment/web"),
    ("delete", "deployment", "--all"),
    ("delete", "--raw", "/apis/apps/v1/namespaces/{}/deployments"),
    ("delete", "deployment/web", "--dry-run=server"),
    ("scale", "deployment/web", "--replicas=9"),
    (
        *("patch", "deployment/web", "--subresource=status", "--type=merge"),
        *("-p", '{"metadata":{"annotations":{"a":"b"}}}'),
    ),
)


async def test_a_person_is_told_which_repository_to_change(shop: Shop) -> None:
    await shop.apply(workload(DEPLOYMENT, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")
    (pod, *_) = await shop.pods()
    generation = dig(await shop.admin.get(DEPLOYMENT, "web", shop.namespace), "metadata", "labels")
    inside = f"pod/{dig(pod, 'metadata', 'name')}"
    home = f"Kustomization/{shop.namespace}/web from GitRepository/{shop.namespace}/fleet"

    for arguments in (
        *REFUSED,
        ("label", inside, "owner=alice"),
        ("debug", dig(pod, "metadata", "name"), "--image=example.com/evil", "--target=app"),
    ):
        line = (each.replace("{}", shop.namespace) for each in arguments)
        said = await shop.alice.refused(*line)

        assert "denied the request: " in said, (arguments, said)
        assert f"applied by {home} (https://git.example/fleet.git) in directory 'apps/web'" in said
        assert f"ProvenancePolicy '{shop.policy}'" in said
        assert "Ask Ada." in said
    live = await shop.admin.get(DEPLOYMENT, "web", shop.namespace)
    assert dig(live, "metadata", "labels") == generation
    assert dig(live, "spec", "replicas") == 2


async def test_a_person_may_not_bring_anything_else(shop: Shop) -> None:
    exported = workload(DEPLOYMENT, shop.namespace)
    exported["metadata"]["labels"] = Owner(namespace=shop.namespace, name="web").labels
    exported["metadata"]["annotations"] = {BREAK_GLASS: "2099-01-01T00:00:00Z me"}
    for flags in ([], ["--server-side"], ["--dry-run=server"]):
        said = await shop.alice.refused("apply", *flags, obj=exported)

        assert "may not be created by 'alice'" in said
        assert "add it to a repository that is applied here" in said
    for line in (
        ("run", "tool", "--image=example.com/tool"),
        ("create", "configmap", "mine", "--from-literal=a=b"),
        ("create", "rolebinding", "mine", "--role=writer", "--user=bob"),
    ):
        said = await shop.alice.refused(*line)

        assert "only objects from a repository are admitted" in said, line
    said = await shop.alice.refused("diff", obj=exported)
    assert "only objects from a repository are admitted" in said


async def test_what_decides_nothing_is_left_to_people(shop: Shop) -> None:
    await shop.apply(workload(DEPLOYMENT, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")
    first, second = (dig(pod, "metadata", "name") for pod in await shop.pods())
    eviction = named(GroupVersionKind("policy", "v1", "Eviction"), first, shop.namespace)
    path = f"/api/v1/namespaces/{shop.namespace}/pods/{first}/eviction"

    evicted = await shop.alice.run("create", "--raw", path, obj=eviction)
    deleted = await shop.alice.run("delete", f"pod/{second}", "--wait=false")
    binding = named(GroupVersionKind("", "v1", "Binding"), first, shop.namespace)
    binding["metadata"]["annotations"] = {"slipped": "in"}
    bound = await shop.alice.refused(
        *("create", "--raw", path.replace("eviction", "binding")),
        obj=binding | {"target": {"kind": "Node", "name": "node-1"}},
    )
    asked = await shop.alice.run(
        "annotate", "kustomization/web", "reconcile.fluxcd.io/requestedAt=now", "--overwrite"
    )

    assert '"Success"' in evicted
    assert "deleted" in deleted
    assert "annotated" in asked
    assert "denied" in bound
    await shop.gone(POD, first)
    await shop.gone(POD, second)
    await shop.rolled(DEPLOYMENT, "web")
    suspend = ("patch", "kustomization/web", "-p", SUSPEND, *MERGE)
    assert "denied" in await shop.alice.refused(*suspend)
    # nor does asking make anybody the owner of fields, which would keep what leaves the repository
    asking = {"reconcile.fluxcd.io/requestedAt": "then"}
    wiped = json.dumps({"metadata": {"annotations": asking, "managedFields": [{}]}})
    said = await shop.alice.refused("patch", "deployment/web", "-p", wiped, *MERGE)
    assert "only objects from a repository are admitted" in said


SUSPEND, MERGE = '{"spec":{"suspend":true}}', ("--type=merge",)


async def test_extras_that_nothing_stands_behind_are_refused(shop: Shop) -> None:
    made = config_map("made", shop.namespace, a="b")
    own = impersonation.service_account(shop.namespace, "deployer")
    other = impersonation.service_account(shop.namespace, "default")

    async def refused(saying: str, user: str = "", **claims: str) -> None:
        with pytest.raises(ForbiddenError, match=saying):
            await shop.applier(user, **claims).apply(made, manager=MANAGER)

    await refused("acts as '.*:deployer', not as 'alice'", "alice")
    await refused("acts as '.*:deployer', not as '.*:default'", other)
    await refused("does not exist", applier=f"Kustomization/{shop.namespace}/nobody")
    await refused("is not built from", source=f"GitRepository/{shop.namespace}/other")
    await refused("is not what", revision="main@sha1:" + "b" * 40)
    await refused("is not what", digest="sha256:" + "2" * 64)
    await refused("is not what", verified="verified signature of me with key 'K'")
    with pytest.raises(ForbiddenError, match="only objects from a repository"):
        await shop.admin.impersonating(own).apply(made, manager=MANAGER)
    with pytest.raises(ForbiddenError, match="only objects from a repository"):
        await shop.admin.apply(made, manager=MANAGER)  # administrators are people too

    # true claims are believed, also those of a revision that has just come, or just gone
    await shop.apply(made)
    newer = {"revision": "main@sha1:" + "b" * 40, "digest": "sha256:" + "2" * 64}
    await shop.store(**newer)
    await shop.apply(config_map("made", shop.namespace, a="c"), **newer)
    await shop.apply(config_map("made", shop.namespace, a="d"))


async def test_an_unsigned_source_satisfies_nothing(shop: Shop) -> None:
    await shop.admin.patch(
        GIT_REPOSITORY,
        "fleet",
        shop.namespace,
        {"status": {"artifact": {"metadata": {crds.meta.VERIFIED: None}}}},
        strategy="merge",
        subresource="status",
    )

    with pytest.raises(ForbiddenError, match=r"no signature of GitRepository/.*/fleet was"):
        await shop.apply(config_map("made", shop.namespace), verified="")


async def test_a_proxy_of_the_source_answers_for_no_address(shop: Shop) -> None:
    urls = ["https://git.example/**"]
    claims = {"revision": "main@sha1:" + "b" * 40, "digest": "sha256:" + "2" * 64}
    await shop.store(**claims, proxySecretRef={"name": "mine"})
    await shop.protect(origins=[{"source": {"urls": urls}}])
    made = config_map("made", shop.namespace)

    async def refused() -> bool:
        try:
            await shop.applier(**claims).apply(made, manager=MANAGER, dry_run=True)
        except ForbiddenError as exc:
            return "through the proxy in spec.proxySecretRef" in str(exc)
        return False

    async def admitted() -> bool:
        with contextlib.suppress(ForbiddenError):
            await shop.applier(**claims).apply(made, manager=MANAGER, dry_run=True)
            return True
        return False

    await shop.gate.until(refused)
    await shop.protect(origins=[{"source": {"urls": urls, "ownProxy": "Allow"}}])
    await shop.gate.until(admitted)


async def test_the_glass_is_broken_by_those_who_may_and_is_not_silent(shop: Shop) -> None:
    until = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ} incident 42"
    role = f"breaker-{shop.namespace}"
    namespaces = ("--resource=namespaces,namespaces/status", f"--resource-name={shop.namespace}")
    admin = shop.gate.kubectl.run
    await admin("create", "clusterrole", role, "--verb=get,update,patch", *namespaces)
    await admin("create", "clusterrolebinding", role, f"--clusterrole={role}", "--user=alice")
    named = {"apiGroups": [""], "resourceNames": [shop.namespace]}
    each = ["namespaces", "namespaces/status"]
    for verb in ("get", "update", "patch"):
        await rights.noticed(shop.admin, "alice", {**named, "resources": each, "verbs": [verb]})
    mark = ("annotate", "namespace", shop.namespace, f"{BREAK_GLASS}={until}", "--overwrite")
    create = ("create", "configmap", "urgent", "--from-literal=a=b")

    # who may change the Namespace alone neither opens nor unprotects it
    assert "needs the verb 'bypass'" in await shop.alice.refused(*mark)
    unlabel = ("label", "namespace", shop.namespace, f"{LABEL}-")
    assert "may not take the protection from it" in await shop.alice.refused(*unlabel)
    merge = ("--type=merge", "-p", json.dumps({"metadata": {"labels": {LABEL: None}}}))
    status = ("patch", "namespace", shop.namespace, "--subresource=status")
    around = await shop.alice.refused(*status, *merge)
    assert "may not take the protection from it" in around
    assert "labeled" in await shop.alice.run("label", "namespace", shop.namespace, "a=b")
    assert "denied" in await shop.alice.refused(*create)

    bypass = ("--verb=bypass", "--resource=provenancepolicies.policy.penstock.dev")
    await admin("create", "clusterrole", f"{role}-2", *bypass, f"--resource-name={shop.policy}")
    await admin(
        *("create", "clusterrolebinding", f"{role}-2"),
        *(f"--clusterrole={role}-2", "--user=alice"),
    )

    # who may bypass the policy still has to say so first
    assert "denied" in await shop.alice.refused(*create)

    async def marked() -> bool:
        return "annotated" in await shop.alice.answer(*mark)

    await shop.gate.until(marked)
    said = await shop.alice.run(*create)
    assert "Warning: this comes from no repository; break-glass is active until" in said
    assert "created" in said
    bob = shop.admin.impersonating(impersonation.service_account(shop.namespace, "deployer"))
    with pytest.raises(ForbiddenError):  # others are refused as before
        await bob.create(config_map("mine", shop.namespace))
    forever = ("annotate", "namespace", shop.namespace, f"{BREAK_GLASS}=true", "--overwrite")
    assert "must be a time and a reason" in await shop.alice.refused(*forever)


async def test_a_policy_that_only_warns_lets_everything_in(shop: Shop) -> None:
    await shop.protect(mode="Warn")

    async def warned() -> str:
        said = await shop.alice.answer("create", "configmap", secrets.token_hex(4))
        return said if "created" in said else ""

    said = await shop.gate.until(warned)

    assert "Warning: ConfigMap/" in said
    assert "only objects from a repository are admitted" in said


async def test_a_namespace_and_its_garbage_go_with_the_webhooks_up(shop: Shop) -> None:
    await shop.apply(workload(DEPLOYMENT, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")

    await shop.admin.delete(NAMESPACE, shop.namespace)

    await namespaces.gone(shop.admin, shop.namespace)


async def test_a_namespace_and_its_garbage_go_with_the_webhooks_down(shop: Shop) -> None:
    await shop.apply(workload(DEPLOYMENT, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")
    async with shop.gate.away(*ROWS):
        with pytest.raises(ApiError, match="failed calling webhook"):
            await shop.apply(config_map("made", shop.namespace))

        await shop.admin.delete(NAMESPACE, shop.namespace)

        await namespaces.gone(shop.admin, shop.namespace)


def _decides(namespace: str) -> dict[str, Json]:
    """Return objects that decide what is applied, by the names of their resources."""
    source = {"kind": "GitRepository", "name": "fleet"}
    specs: dict[crds.kind.Kind[Any], Json] = {
        crds.HELM_CHART: {"interval": "1h", "chart": "./chart", "sourceRef": source},
        crds.EXTERNAL_ARTIFACT: {},
        crds.IMAGE_REPOSITORY: {"interval": "1h", "image": "registry.example/web"},
        crds.IMAGE_POLICY: {
            "imageRepositoryRef": {"name": "web"},
            "policy": {"semver": {"range": "1.x"}},
        },
        crds.IMAGE_UPDATE_AUTOMATION: {
            "interval": "1h",
            "sourceRef": source,
            "git": {"commit": {"author": {"email": "bot@example.com"}}, "push": {"branch": "main"}},
        },
        crds.PROVIDER: {"type": "generic", "address": "https://hooks.example"},
        crds.ALERT: {"providerRef": {"name": "web"}, "eventSources": [source]},
        crds.RECEIVER: {
            "type": "generic",
            "secretRef": {"name": "token"},
            "resources": [source],
        },
        crds.REFERENCE_GRANT: {
            "from": [{"group": "x", "kind": "Y", "namespace": "other"}],
            "to": [{"group": "x", "kind": "Y"}],
        },
    }
    return {
        kind.crd_name: named(GroupVersionKind(*kind.gvk), "web", namespace) | {"spec": spec}
        for kind, spec in specs.items()
    }


async def test_a_person_changes_nothing_that_decides_what_is_applied(shop: Shop) -> None:
    """Not what a chart is made from, nor which image is written into a repository."""
    for resource, obj in _decides(shop.namespace).items():
        assert "only objects from a repository" in await shop.alice.refused("create", obj=obj)
        await shop.apply(obj)

        suspend = ("patch", f"{resource}/web", "-p", SUSPEND, *MERGE)
        for line in (
            ("annotate", f"{resource}/web", "a=b"),
            ("label", f"{resource}/web", "helm.toolkit.fluxcd.io/name=other"),
            *([suspend] if "interval" in obj["spec"] else []),
            ("delete", f"{resource}/web"),
        ):
            said = await shop.alice.refused(*line)
            assert "only objects from a repository are admitted" in said, (line, said)
        asked = await shop.alice.run(
            "annotate", f"{resource}/web", "reconcile.fluxcd.io/requestedAt=now"
        )
        assert "annotated" in asked


async def test_a_person_changes_them_in_no_old_version_either(shop: Shop) -> None:
    objects = _decides(shop.namespace)
    for kind in (crds.HELM_CHART, crds.IMAGE_POLICY, crds.IMAGE_REPOSITORY):
        for old in kind.older:
            api_version = f"{kind.group}/{old.version}"
            obj = objects[kind.crd_name] | {"apiVersion": api_version}

            said = await shop.alice.refused("create", obj=obj)

            assert "only objects from a repository are admitted" in said, api_version


async def test_a_status_that_decides_is_written_by_its_controller_alone(shop: Shop) -> None:
    policies = crds.IMAGE_POLICY.crd_name
    await shop.apply(_decides(shop.namespace)[policies])
    chosen = {"status": {"latestRef": {"name": "registry.example/evil", "tag": "1.0.0"}}}
    status = ("patch", f"{policies}/web", "--subresource=status", *MERGE)

    said = await shop.alice.refused(*status, "-p", json.dumps(chosen))

    assert "only objects from a repository are admitted" in said
    installed = shop.gate.namespace
    own = shop.admin.impersonating(impersonation.service_account(installed, "image-controller"))
    gvk = GroupVersionKind(*crds.IMAGE_POLICY.gvk)
    place = (gvk, "web", shop.namespace)
    with pytest.raises(ForbiddenError) as refused:  # RBAC refuses it, which is asked first
        await own.patch(*place, chosen, strategy="merge", subresource="status")
    assert "webhook" not in str(refused.value)


async def test_a_revision_that_is_not_admitted_deletes_nothing(shop: Shop) -> None:
    await shop.apply(config_map("made", shop.namespace))
    await shop.protect(origins=[{"revision": "v.*"}])

    async def refused() -> bool:
        try:
            gvk = GroupVersionKind("", "v1", "ConfigMap")
            await shop.applier().delete(gvk, "made", shop.namespace, dry_run=True)
        except ForbiddenError as exc:
            return "does not match 'v.*'" in str(exc)
        return False

    await shop.gate.until(refused)
