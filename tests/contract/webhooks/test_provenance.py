"""A protected namespace behind a real API server: what rolls, and who is refused and told what."""

import asyncio
import contextlib
import functools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
import yaml

import crds
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.tools import rights
from toolkit.apply.ownership import Owner
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ForbiddenError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy import origins
from toolkit.policy.provenance import BREAK_GLASS, LABEL
from webhooks import protection, provenance

pytestmark = pytest.mark.asyncio(loop_scope="module")

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
        self.kubeconfig = gate.control_plane.kubeconfig_as("alice")

    async def open(self) -> None:
        """Make accounts, rights and sources; protect the namespace; wait until it is."""
        await self._fill()
        await self.protect()
        await self.gate.until(self._asked)

    async def _fill(self) -> None:
        await self.admin.create(_object(NAMESPACE, self.namespace, ""))
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", *WRITE]}
        rbac = "rbac.authorization.k8s.io"
        role = _object(GroupVersionKind(rbac, "v1", "Role"), "writer", self.namespace)
        binding = _object(GroupVersionKind(rbac, "v1", "RoleBinding"), "writer", self.namespace)
        accounts = [
            {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
            for name in ("deployer", "default")
        ]
        alice = {"apiGroup": rbac, "kind": "User", "name": "alice"}
        for obj in (
            _object(GroupVersionKind("", "v1", "ServiceAccount"), "deployer", self.namespace),
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

    def source(self) -> Json:
        spec = {"interval": "1h", "url": "https://git.example/fleet.git"}
        return _object(GIT_REPOSITORY, "fleet", self.namespace) | {"spec": spec}

    def kustomization(self, name: str = "web") -> Json:
        spec = {
            "interval": "1h",
            "prune": True,
            "path": "./apps/web",
            "serviceAccountName": "deployer",
            "sourceRef": {"kind": "GitRepository", "name": "fleet"},
        }
        return _object(KUSTOMIZATION, name, self.namespace) | {"spec": spec}

    async def store(self, revision: str, digest: str) -> None:
        """Have the source hold another artifact."""
        artifact = {
            "digest": digest,
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": "p",
            "revision": revision,
            "url": "http://artifacts.example/p",
            "metadata": {
                crds.meta.VERIFIED: SIGNED,
                origins.RECORD: origins.record(origins.own(self.source()), ()),
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
        policy = _object(GroupVersionKind(*crds.PROVENANCE_POLICY.gvk), self.policy, "")
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
            probe = _config_map("probe", self.namespace)
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

    async def alice(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as alice, who has every right that RBAC gives in the namespace."""
        process = await asyncio.create_subprocess_exec(
            str(self.gate.control_plane.kubectl_program),
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate(stdin.encode())
        return said.decode()

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

    async def gone(self, gvk: GroupVersionKind, name: str, namespace: str) -> None:
        async def check() -> bool:
            try:
                await self.admin.get(gvk, name, namespace)
            except NotFoundError:
                return True
            return False

        await self.gate.until(check)

    async def close(self) -> None:
        with contextlib.suppress(ApiError):
            gvk = GroupVersionKind(*crds.PROVENANCE_POLICY.gvk)
            await self.admin.delete(gvk, self.policy)
        with contextlib.suppress(ApiError):
            await self.admin.delete(NAMESPACE, self.namespace)


_SOURCES = ("gitrepositories", "ocirepositories", "buckets", "externalartifacts")
_KINDS = (*_SOURCES, "kustomizations", "provenancepolicies")


def _object(gvk: GroupVersionKind, name: str, namespace: str) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}


def _config_map(name: str, namespace: str, **data: str) -> Json:
    return _object(CONFIG_MAP, name, namespace) | {"data": data}


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
    return _object(gvk, name, namespace) | {"spec": {**more, "template": template}}


def autoscaler(namespace: str, *, least: int) -> Json:
    """Return one that needs no metrics, because less than the least is there."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 9}
    gvk = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
    return _object(gvk, "web", namespace) | {"spec": spec}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    """Run the webhook process for all tests of the module."""
    del definitions
    installed = f"gate-{secrets.token_hex(4)}"
    async with opened(control_plane, installed) as gate:
        await gate.admin.create(_object(NAMESPACE, installed, ""))
        await known(gate)
        await gate.start(*ROWS)
        yield gate
    await asyncio.to_thread(control_plane.kubectl, "delete", "namespace", installed, "--wait=false")


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
        said = await shop.alice(*(each.replace("{}", shop.namespace) for each in arguments))

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
    manifest = yaml.safe_dump(exported)
    for flags in ([], ["--server-side"], ["--dry-run=server"]):
        said = await shop.alice("apply", *flags, "-f", "-", stdin=manifest)

        assert "may not be created by 'alice'" in said
        assert "add it to a repository that is applied here" in said
    for line in (
        ("run", "tool", "--image=example.com/tool"),
        ("create", "configmap", "mine", "--from-literal=a=b"),
        ("create", "rolebinding", "mine", "--role=writer", "--user=bob"),
        ("diff", "-f", "-"),
    ):
        said = await shop.alice(*line, stdin=manifest)

        assert "only what comes from a repository is admitted" in said, line


async def test_what_decides_nothing_is_left_to_people(shop: Shop) -> None:
    await shop.apply(workload(DEPLOYMENT, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")
    first, second = (dig(pod, "metadata", "name") for pod in await shop.pods())
    eviction = _object(GroupVersionKind("policy", "v1", "Eviction"), first, shop.namespace)
    path = f"/api/v1/namespaces/{shop.namespace}/pods/{first}/eviction"

    evicted = await shop.alice("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    deleted = await shop.alice("delete", f"pod/{second}", "--wait=false")
    binding = _object(GroupVersionKind("", "v1", "Binding"), first, shop.namespace)
    binding["metadata"]["annotations"] = {"slipped": "in"}
    bound = await shop.alice(
        *("create", "--raw", path.replace("eviction", "binding"), "-f", "-"),
        stdin=json.dumps(binding | {"target": {"kind": "Node", "name": "node-1"}}),
    )
    asked = await shop.alice(
        "annotate", "kustomization/web", "reconcile.fluxcd.io/requestedAt=now", "--overwrite"
    )

    assert '"Success"' in evicted
    assert "deleted" in deleted
    assert "annotated" in asked
    assert "denied" in bound
    await shop.gone(POD, first, shop.namespace)
    await shop.gone(POD, second, shop.namespace)
    await shop.rolled(DEPLOYMENT, "web")
    assert "denied" in await shop.alice("patch", "kustomization/web", "-p", SUSPEND, *MERGE)
    # nor does asking make anybody the owner of fields, which would keep what leaves the repository
    asking = {"reconcile.fluxcd.io/requestedAt": "then"}
    wiped = json.dumps({"metadata": {"annotations": asking, "managedFields": [{}]}})
    said = await shop.alice("patch", "deployment/web", "-p", wiped, *MERGE)
    assert "only what comes from a repository is admitted" in said


SUSPEND, MERGE = '{"spec":{"suspend":true}}', ("--type=merge",)


async def test_extras_that_nothing_stands_behind_are_refused(shop: Shop) -> None:
    made = _config_map("made", shop.namespace, a="b")
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
    with pytest.raises(ForbiddenError, match="only what comes from a repository"):
        await shop.admin.impersonating(own).apply(made, manager=MANAGER)
    with pytest.raises(ForbiddenError, match="only what comes from a repository"):
        await shop.admin.apply(made, manager=MANAGER)  # administrators are people too

    # true claims are believed, also those of a revision that has just come, or just gone
    await shop.apply(made)
    newer = {"revision": "main@sha1:" + "b" * 40, "digest": "sha256:" + "2" * 64}
    await shop.store(**newer)
    await shop.apply(_config_map("made", shop.namespace, a="c"), **newer)
    await shop.apply(_config_map("made", shop.namespace, a="d"))


async def test_an_unsigned_source_satisfies_nothing(shop: Shop) -> None:
    await shop.admin.patch(
        GIT_REPOSITORY,
        "fleet",
        shop.namespace,
        {"status": {"artifact": {"metadata": {crds.meta.VERIFIED: None}}}},
        strategy="merge",
        subresource="status",
    )

    with pytest.raises(ForbiddenError, match=r"nobody's signature of GitRepository/.*/fleet was"):
        await shop.apply(_config_map("made", shop.namespace), verified="")


async def test_the_glass_is_broken_by_those_who_may_and_is_not_silent(shop: Shop) -> None:
    until = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ} incident 42"
    role = f"breaker-{shop.namespace}"
    namespaces = ("--resource=namespaces,namespaces/status", f"--resource-name={shop.namespace}")
    admin = shop.gate.kubectl
    await admin("create", "clusterrole", role, "--verb=get,update,patch", *namespaces)
    await admin("create", "clusterrolebinding", role, f"--clusterrole={role}", "--user=alice")
    named = {"apiGroups": [""], "resourceNames": [shop.namespace]}
    each = ["namespaces", "namespaces/status"]
    for verb in ("get", "update", "patch"):
        await rights.noticed(shop.admin, "alice", {**named, "resources": each, "verbs": [verb]})
    mark = ("annotate", "namespace", shop.namespace, f"{BREAK_GLASS}={until}", "--overwrite")
    create = ("create", "configmap", "urgent", "--from-literal=a=b")

    # who may change the Namespace alone neither opens nor unprotects it
    assert "needs the verb 'bypass'" in await shop.alice(*mark)
    unlabel = ("label", "namespace", shop.namespace, f"{LABEL}-")
    assert "may not take the protection from it" in await shop.alice(*unlabel)
    merge = ("--type=merge", "-p", json.dumps({"metadata": {"labels": {LABEL: None}}}))
    around = await shop.alice("patch", "namespace", shop.namespace, "--subresource=status", *merge)
    assert "may not take the protection from it" in around
    assert "labeled" in await shop.alice("label", "namespace", shop.namespace, "a=b")
    assert "denied" in await shop.alice(*create)

    bypass = ("--verb=bypass", "--resource=provenancepolicies.policy.penstock.dev")
    await admin("create", "clusterrole", f"{role}-2", *bypass, f"--resource-name={shop.policy}")
    await admin(
        *("create", "clusterrolebinding", f"{role}-2"),
        *(f"--clusterrole={role}-2", "--user=alice"),
    )

    # who may bypass the policy still has to say so first
    assert "denied" in await shop.alice(*create)

    async def marked() -> bool:
        return "annotated" in await shop.alice(*mark)

    await shop.gate.until(marked)
    said = await shop.alice(*create)
    assert "Warning: no repository holds this; the glass is broken until" in said
    assert "created" in said
    bob = shop.admin.impersonating(impersonation.service_account(shop.namespace, "deployer"))
    with pytest.raises(ForbiddenError):  # others are refused as before
        await bob.create(_config_map("mine", shop.namespace))
    forever = ("annotate", "namespace", shop.namespace, f"{BREAK_GLASS}=true", "--overwrite")
    assert "must be a time and a reason" in await shop.alice(*forever)
    for name in (role, f"{role}-2"):
        await admin("delete", "clusterrole,clusterrolebinding", name)


async def test_a_policy_that_only_warns_lets_everything_in(shop: Shop) -> None:
    await shop.protect(mode="Warn")

    async def warned() -> str:
        said = await shop.alice("create", "configmap", secrets.token_hex(4))
        return said if "created" in said else ""

    said = await shop.gate.until(warned)

    assert "Warning: ConfigMap/" in said
    assert "only what comes from a repository is admitted" in said


async def test_a_namespace_and_its_garbage_go_with_the_webhooks_up(shop: Shop) -> None:
    await shop.apply(workload(DEPLOYMENT, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")

    await shop.admin.delete(NAMESPACE, shop.namespace)

    await shop.gone(NAMESPACE, shop.namespace, "")


async def test_a_namespace_and_its_garbage_go_with_the_webhooks_down(shop: Shop) -> None:
    await shop.apply(workload(DEPLOYMENT, shop.namespace))
    await shop.rolled(DEPLOYMENT, "web")
    for replica in shop.gate.replicas:
        await replica.stop()
    shop.gate.replicas.clear()
    with pytest.raises(ApiError, match="failed calling webhook"):
        await shop.apply(_config_map("made", shop.namespace))

    await shop.admin.delete(NAMESPACE, shop.namespace)

    await shop.gone(NAMESPACE, shop.namespace, "")
    await shop.gate.start(*ROWS)
