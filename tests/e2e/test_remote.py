"""Applying to another cluster: ``spec.kubeConfig`` by Secret, and by ConfigMap without a secret."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from controlplane import plane as planes
from controlplane.plane import ControlPlane
from tests.e2e.conftest import (
    CONFIG_MAP,
    DEADLINE,
    DEPLOYMENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    SECRET,
    Space,
    World,
    condition,
    config_map,
    deployment,
)
from tests.e2e.helmreleases import HELM_RELEASE, at, release, served
from tests.e2e.plans import ask, reader
from tests.e2e.window import Window
from tests.tools import rights
from tests.tools.command import penstock
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC = "rbac.authorization.k8s.io"
ISSUER = "https://kubernetes.default.svc"


@pytest.fixture(scope="module")
def remote_plane(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run a second control plane, which asks the first one whose tokens are unknown to it."""
    reviewer = tmp_path_factory.mktemp("remote") / "reviewer.yaml"
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    for cluster in document["clusters"]:
        cluster["cluster"]["server"] += "/apis/authentication.k8s.io/v1/tokenreviews"
    reviewer.write_text(yaml.safe_dump(document))
    flags = (
        f"--authentication-token-webhook-config-file={reviewer}",
        "--authentication-token-webhook-version=v1",
    )
    with planes.start("pytest-far", alternatives=8, flags={"kube-apiserver": flags}) as plane:
        yield plane


class Far(Space):
    """A namespace here, and the one of the same name on the remote cluster."""

    api: Client
    plane: ControlPlane

    async def connect(self, kubeconfig: str, *, key: str = "value", name: str = "far") -> None:
        """Make the Secret with the kubeconfig."""
        metadata = {"name": name, "namespace": self.namespace}
        data = {key: base64.b64encode(kubeconfig.encode()).decode()}
        await self.world.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        )

    async def start(self, files: Mapping[str, str], **spec: Any) -> str:
        """Commit the files and have them applied there."""
        repository = self.repository()
        commit = repository.commit(files)
        app = self.kustomization(**{"kubeConfig": {"secretRef": {"name": "far"}}, **spec})
        await self.world.apply(self.source(repository))
        await self.ready(GIT_REPOSITORY, revision=commit)
        await self.world.apply(app)
        return commit

    async def until(self, gvk: GroupVersionKind, name: str, holds: Callable[[Json], bool]) -> Json:
        """Return the remote object once this is true of it; no object is an empty one."""
        obj: Json = {}
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                obj = await self.api.get(gvk, name, self.namespace)
            except NotFoundError:
                obj = {}
            if holds(obj):
                return obj
            await asyncio.sleep(0.05)
        pytest.fail(f"{gvk.kind} {name} did not get there; it is {obj}")

    async def gone(self, gvk: GroupVersionKind, name: str) -> None:
        await self.until(gvk, name, lambda obj: not obj)

    async def edit(self, name: str, data: Json) -> None:
        """Change a remote ConfigMap by hand."""
        await self.api.patch(CONFIG_MAP, name, self.namespace, {"data": data}, strategy="merge")

    @property
    def admin(self) -> str:
        """The kubeconfig of an administrator there."""
        return self.plane.kubeconfig.read_text()

    async def grant(self, user: Json, *, resources: list[str]) -> None:
        """Let somebody do everything with these kinds in the remote namespace."""
        metadata = {"name": "some", "namespace": self.namespace}
        rules = [{"apiGroups": [""], "resources": resources, "verbs": ["*"]}]
        ref = {"apiGroup": RBAC, "kind": "Role", "name": "some"}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        binding = role | {"kind": "RoleBinding", "roleRef": ref, "subjects": [user]}
        del binding["rules"]
        for obj in (role, binding):
            await self.api.apply(obj, manager="kubectl")


@pytest_asyncio.fixture(loop_scope="session")
async def far(world: World, namespace: str, remote_plane: ControlPlane) -> AsyncIterator[Far]:
    """Give the test a namespace of its own on both clusters."""
    space = Far(world=world, namespace=namespace)
    space.plane = remote_plane
    settings = config.from_environment(str(remote_plane.kubeconfig))
    async with Client.open(settings) as space.api:
        await space.api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        yield space
        await space.api.delete(NAMESPACE, namespace)


async def test_objects_live_on_the_other_cluster_from_first_apply_to_deletion(far: Far) -> None:
    await far.connect(far.admin)
    files = {"a.yaml": config_map("a", v="1"), "web.yaml": deployment("web")}

    commit = await far.start(files, wait=True)
    obj = await far.ready(revision=commit)
    web = await far.api.get(DEPLOYMENT, "web", far.namespace)
    here = [await far.world.exists(CONFIG_MAP, far.namespace, "a")]
    await far.edit("a", {"v": "2"})
    await far.until(CONFIG_MAP, "a", lambda a: dig(a, "data", "v") == "1")  # healed
    pruned = far.repositories[0].commit({"web.yaml": None})
    await far.request(GIT_REPOSITORY)
    await far.ready(revision=pruned)
    await far.gone(DEPLOYMENT, "web")
    await far.world.api.delete(KUSTOMIZATION, "app", far.namespace)
    await far.gone(CONFIG_MAP, "a")
    await far.world.gone(KUSTOMIZATION, far.namespace, "app")

    assert condition(obj, "Healthy")["status"] == "True"
    assert web["status"]["availableReplicas"] == 1
    assert here == [False]


async def test_release_and_its_records_are_on_the_other_cluster(far: Far) -> None:
    records = f"{far.namespace}-records"
    await far.connect(far.admin)
    await far.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": records}})
    async with served(far, "1.0.0"):
        spec = {"kubeConfig": {"secretRef": {"name": "far"}}, "storageNamespace": records}
        await far.world.apply(release(far, driftDetection={"mode": "enabled"}, **spec))
        await at(far, "1.0.0")
        web = await far.api.get(DEPLOYMENT, "app", far.namespace)
        stored = await far.api.list(SECRET, records, label_selector="owner=helm")
        here = await far.world.api.list(SECRET, far.namespace, label_selector="owner=helm")
        await far.edit("app", {"colour": "green"})
        await far.until(CONFIG_MAP, "app", lambda obj: dig(obj, "data", "colour") == "red")
        await far.world.api.delete(HELM_RELEASE, "app", far.namespace)
        await far.world.gone(HELM_RELEASE, far.namespace, "app")

    assert web["status"]["availableReplicas"] == 1
    assert [each["metadata"]["name"] for each in stored] == ["sh.helm.release.v1.app.v1"]
    assert here == []
    await far.gone(CONFIG_MAP, "app")
    assert await far.api.list(SECRET, records, label_selector="owner=helm") == []
    await far.api.delete(NAMESPACE, records)


async def test_plans_and_the_command_ask_the_other_cluster(far: Far, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(config_map("a", v="1"))
    await far.connect(far.admin)
    commit = await far.start({"a.yaml": config_map("a", v="1")})
    await far.ready(revision=commit)
    await far.suspend()
    await far.edit("a", {"v": "2"})

    answer = await ask(far, await reader(far))
    inventory = await Window(far).until(lambda status: status["objects"] == 1)
    words = ("get", "inventories", "app", "--no-header", "-n", far.namespace)
    shown = await penstock(far.world.plane.kubeconfig, *words)
    served = await penstock(far.world.plane.kubeconfig, *words, "--no-remote")
    local = ("diff", "kustomization", "app", "--path", str(tmp_path), "-n", far.namespace)
    differs = await penstock(far.world.plane.kubeconfig, *local)

    assert answer.status == 200, answer.body
    assert answer.changes["ConfigMap/a"]["differences"] == [
        {"action": "changed", "path": "data.v", "before": '"2"', "after": '"1"'}
    ]
    assert inventory["status"]["unobserved"] == 1
    assert "another cluster" in inventory["status"]["problems"][0]["message"]
    assert shown.out.split()[:4] == ["app", "1", "1/1", "0"], shown.err
    assert served.out.split()[:4] == ["app", "1", "0/0", "0"], served.err
    assert differs.code == 1, differs.err
    assert differs.out.splitlines()[1] == '  ~ data.v: "2" → "1"'


async def test_the_tree_leads_to_the_pods_there_for_those_who_may_read_the_secret(
    far: Far,
) -> None:
    await far.connect(far.admin)
    commit = await far.start({"web.yaml": deployment("web")}, wait=True)
    await far.ready(revision=commit)
    words = ("tree", "ks", "app", "-n", far.namespace)

    tree = await penstock(far.world.plane.kubeconfig, *words)
    user = f"reader-{far.namespace}"
    await reads_kustomizations(far, user)
    lacking = await penstock(far.world.plane.kubeconfig, *words, "--as", user)

    assert [line.lstrip("│├└─ ").split("/")[0] for line in tree.out.splitlines()] == [
        *("Kustomization", "Deployment", "ReplicaSet", "Pod"),
    ]
    assert (tree.code, lacking.code) == (0, 0)
    first, second = lacking.out.splitlines()
    assert "on another cluster (spec.kubeConfig): " in first
    assert 'cannot get resource "secrets"' in first
    assert second.endswith(f"Deployment/{far.namespace}/web")


async def reads_kustomizations(space: Space, user: str) -> None:
    """Let somebody read the Kustomizations of the space, and nothing else."""
    rule = {"apiGroups": [KUSTOMIZATION.group], "resources": ["kustomizations"], "verbs": ["get"]}
    metadata = {"name": "reads", "namespace": space.namespace}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata}
    binding = {
        **role,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reads"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    await space.world.apply({**role, "rules": [rule]}, binding)
    await rights.noticed(space.world.api, user, rule, namespace=space.namespace)


async def test_account_named_by_the_spec_is_one_of_the_other_cluster(far: Far) -> None:
    await far.connect(far.admin)
    account = {"kind": "ServiceAccount", "name": "tenant", "namespace": far.namespace}
    await far.grant(account, resources=["configmaps"])
    secret = yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
    files = {"a.yaml": config_map("a"), "s.yaml": secret}

    await far.start(files, serviceAccountName="tenant", retryInterval="500ms")
    obj = await far.refused(saying="forbidden")
    await far.grant(account, resources=["configmaps", "secrets"])
    await far.ready()

    message = condition(obj, "Ready")["message"]
    assert f'User "system:serviceaccount:{far.namespace}:tenant" cannot patch' in message
    await far.until(SECRET, "s", bool)


async def test_drift_is_healed_for_an_identity_that_sees_its_namespace_only(far: Far) -> None:
    user = f"deployer-{far.namespace}"
    await far.grant({"kind": "User", "name": user, "apiGroup": RBAC}, resources=["configmaps"])
    kubeconfig = await asyncio.to_thread(far.plane.kubeconfig_as, user)
    await far.connect(kubeconfig.read_text())

    commit = await far.start({"a.yaml": config_map("a", v="1")}, wait=True, interval="1s")
    await far.ready(revision=commit)
    await far.edit("a", {"v": "2"})

    await far.until(CONFIG_MAP, "a", lambda a: dig(a, "data", "v") == "1")


async def test_new_credentials_are_taken_up_and_drift_is_still_seen(far: Far) -> None:
    await far.connect(far.admin)
    commit = await far.start({"a.yaml": config_map("a", v="1")})
    await far.ready(revision=commit)

    other = await asyncio.to_thread(
        far.plane.kubeconfig_as, f"other-{far.namespace}", groups=["system:masters"]
    )
    await far.connect(other.read_text())
    await far.request()
    await far.edit("a", {"v": "2"})

    await far.until(CONFIG_MAP, "a", lambda a: dig(a, "data", "v") == "1")


def with_user(text: str, **fields: Any) -> str:
    document = yaml.safe_load(text)
    document["users"][0]["user"] |= fields
    return yaml.safe_dump(document)


def with_cluster(text: str, **fields: Any) -> str:
    document = yaml.safe_load(text)
    document["clusters"][0]["cluster"] |= fields
    return yaml.safe_dump(document)


RUN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": ["pwned"]}
REFUSED: dict[str, tuple[Callable[[str], str], str]] = {
    "exec": (lambda text: with_user(text, exec=RUN), "'exec' is not allowed"),
    "token file": (lambda text: with_user(text, tokenFile="/etc/passwd"), "'tokenFile'"),
    "key file": (lambda text: with_user(text, **{"client-key": "/k"}), "'client-key'"),
    "ca file": (lambda text: with_cluster(text, **{"certificate-authority": "/ca"}), "authority"),
    "insecure": (
        lambda text: with_cluster(text, **{"insecure-skip-tls-verify": True}),
        "must use https and verify",
    ),
    "plain": (lambda text: with_cluster(text, server="http://127.0.0.1:1"), "must use https"),
    "no YAML": (lambda _: "{", "not YAML"),
    "unreachable": (lambda text: with_cluster(text, server="https://127.0.0.1:1"), "127.0.0.1:1"),
}


async def test_hostile_kubeconfigs_are_refused_by_name(far: Far, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    RUN["args"] = [str(ran)]
    commit = await far.start({"a.yaml": config_map("a")}, kubeConfig={"secretRef": {"name": "no"}})
    absent = await far.refused(saying="not found")
    for number, (make, _) in enumerate(REFUSED.values()):
        await far.connect(make(far.admin), name=f"bad-{number}")
    await far.world.apply(
        *(
            far.kustomization(f"bad-{n}", kubeConfig={"secretRef": {"name": f"bad-{n}"}})
            for n in range(len(REFUSED))
        )
    )

    for number, (_, saying) in enumerate(REFUSED.values()):
        await far.refused(name=f"bad-{number}", saying=saying)

    row = condition(absent, "Ready")
    assert row["reason"] == "ReconciliationFailed"
    assert row["message"].startswith(
        f"unable to read KubeConfig secret '{far.namespace}/no' error: "
    )
    assert not ran.exists()
    assert commit in absent["status"]["lastAttemptedRevision"]


async def test_deletion_ends_although_the_kubeconfig_is_gone(far: Far) -> None:
    await far.connect(far.admin)
    commit = await far.start({"a.yaml": config_map("a")})
    await far.ready(revision=commit)
    await far.world.api.delete(SECRET, "far", far.namespace)

    await far.world.api.delete(KUSTOMIZATION, "app", far.namespace)
    await far.world.gone(KUSTOMIZATION, far.namespace, "app")

    await far.until(CONFIG_MAP, "a", bool)
    event = await far.told("the applied objects stay")
    assert f"Secret '{far.namespace}/far' not found" in event["message"]


async def test_cluster_that_trusts_our_accounts_needs_no_secret(far: Far) -> None:
    metadata = {"name": "far", "namespace": far.namespace}
    data = {
        "provider": "generic",
        "address": far.plane.server,
        "ca.crt": far.plane.ca.decode(),
        "audiences": ISSUER,
        "serviceAccountName": "deployer",
    }
    await far.world.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata | {"name": "deployer"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
    )
    ref = {"configMapRef": {"name": "far"}}
    await far.lend_tokens()

    await far.start({"a.yaml": config_map("a", v="1")}, kubeConfig=ref, retryInterval="500ms")
    obj = await far.refused(saying="forbidden")
    user = {"kind": "User", "name": f"system:serviceaccount:{far.namespace}:deployer"}
    await far.grant(user | {"apiGroup": RBAC}, resources=["configmaps"])
    await far.ready()

    assert user["name"] in condition(obj, "Ready")["message"]
    await far.until(CONFIG_MAP, "a", lambda a: dig(a, "data", "v") == "1")
