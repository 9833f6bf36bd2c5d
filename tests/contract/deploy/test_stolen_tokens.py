"""What a stolen token of each process can do is what ``docs/security.md`` says, cell by cell.

The API server is asked with the token itself. Cluster roles get names of the test's own, because
the roles of other tests are on the same API server.
"""

import contextlib
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from controlplane.plane import ControlPlane
from tests.tools import installation, namespaces, rights
from toolkit.kube import config, impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PARTS = ("base/rbac", "base/webhooks", "base/apiserver")
WAYS = {
    "installed": (),
    "by-namespace": ("workload-identity", "by-namespace"),
    "everything": ("workload-identity", "decryption"),
}
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
RBAC = "rbac.authorization.k8s.io"
SECRET = GroupVersionKind("", "v1", "Secret")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")

TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
VIEWED = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
"""What Kubernetes adds to the role that collects what viewers may read."""
HERE, TENANT, BOUND = "{here}", "{tenant}", "{bound}"
"""The install namespace, a tenant's, and a tenant's that ``deploy/tenant`` was applied to."""
SOURCE, KUSTOMIZE, HELM = "source.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io", "helm"
HOOKS, CRD = "admissionregistration.k8s.io", "apiextensions.k8s.io"


def asked(verb: str, path: str, namespace: str = TENANT, name: str = "", group: str = "") -> Json:
    resource, _, subresource = path.partition("/")
    return {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }


HOOK = "validatingwebhookconfigurations"
DEFINITION = "kustomizations.kustomize.toolkit.fluxcd.io"
ATTEMPTS = {
    "read a Secret by its name": asked("get", "secrets", name="keys"),
    "list Secrets": asked("list", "secrets"),
    "read a ConfigMap": asked("get", "configmaps", name="settings"),
    "write Secrets": asked("patch", "secrets", name="keys"),
    "create a Secret in the install namespace": asked("create", "secrets", HERE),
    "act as a service account": asked("impersonate", "serviceaccounts", name="deployer"),
    "act as a service account of kube-system": asked(
        "impersonate", "serviceaccounts", "kube-system", "namespace-controller"
    ),
    "act as `kustomize-applier`": asked(
        "impersonate", "serviceaccounts", HERE, "kustomize-applier"
    ),
    "act as `helm-applier`": asked("impersonate", "serviceaccounts", HERE, "helm-applier"),
    "act as a user": asked("impersonate", "users", "", "kubernetes-admin"),
    "act as a group": asked("impersonate", "groups", "", "system:masters"),
    "say where a write comes from": asked(
        "impersonate",
        "userextras/provenance.penstock.dev/source",
        "",
        "GitRepository/a/b",
        "authentication.k8s.io",
    ),
    "make a token of a service account": asked("create", "serviceaccounts/token", name="deployer"),
    "make a token of another process": asked("create", "serviceaccounts/token", HERE, "others"),
    "grant itself more": asked("create", "clusterrolebindings", "", "", RBAC),
    "bind a stronger role": asked("bind", "clusterroles", "", "cluster-admin", RBAC),
    "start a pod": asked("create", "pods", HERE),
    "run a command in a pod": asked("create", "pods/exec", name="app"),
    "run a command by a websocket": asked("get", "pods/exec", name="app"),
    "reach a kubelet": asked("get", "nodes/proxy", "", "node-1"),
    "read a pod's log": asked("get", "pods/log", name="app"),
    "change a workload": asked("patch", "deployments", name="app", group="apps"),
    "delete a namespace": asked("delete", "namespaces", "", "shop"),
    "change our webhook configuration": asked("patch", HOOK, "", "penstock", HOOKS),
    "change that of others": asked("patch", HOOK, "", "others", HOOKS),
    "change a definition of ours": asked("patch", "customresourcedefinitions", "", DEFINITION, CRD),
    "change one of others": asked("patch", "customresourcedefinitions", "", "x.example.com", CRD),
    "rewrite a source": asked("patch", "gitrepositories", name="app", group=SOURCE),
    "say what a source holds": asked("patch", "gitrepositories/status", name="app", group=SOURCE),
    "rewrite a Kustomization": asked("patch", "kustomizations", name="app", group=KUSTOMIZE),
    "take the Lease of another process": asked(
        "update", "leases", HERE, "others", "coordination.k8s.io"
    ),
    "write an event": asked("create", "events"),
}
"""By what the page calls it."""
CELLS = {
    "no": {"installed": False, "by-namespace": False, "everything": False},
    "yes": {"installed": True, "by-namespace": True, "everything": True},
    "bound": {"installed": True, "by-namespace": False, "everything": True},
    "added": {"installed": False, "by-namespace": False, "everything": True},
}
TABLE = (ROOT / "docs" / "security.md").read_text().partition("\n## Stolen tokens\n")[2]
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TABLE.partition("\n## ")[0].splitlines()
    if line.startswith("| ")
]
ACCOUNTS = [cell.strip("`") for cell in LINES[0][1:]]


@dataclass
class Installed:
    """The rights of an installation, and a client with the token of each of its processes."""

    names: dict[str, str]
    tokens: dict[str, Client]

    async def may(self, account: str, attempt: str, **moved: str) -> bool:
        """Ask the API server, as the process, whether it may."""
        names = self.names | moved
        attributes = {k: v.format(**names) for k, v in ATTEMPTS[attempt].items()}
        body: Json = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await self.tokens[account].request("POST", path, body=body)
        return bool(answer["status"]["allowed"])


def built(plane: ControlPlane, way: str, here: str, folder: Path) -> list[Json]:
    """Return the rights of a way to install, with cluster roles of names of our own."""

    def place(path: str) -> str:
        return os.path.relpath(DEPLOY / path, folder)

    whole = {
        "namespace": here,
        "resources": [place(part) for part in PARTS],
        "components": [place(f"components/{each}") for each in WAYS[way]],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(whole))
    objects = [obj for obj in installation.built(plane, folder) if obj["kind"] in RIGHTS]
    return [renamed(obj, here) for obj in objects]


def renamed(obj: Json, suffix: str) -> Json:
    """Give what is the cluster's a name of our own, where it is defined and where it is bound."""
    if obj["kind"].startswith("ClusterRole"):
        obj["metadata"]["name"] += f"-{suffix}"
    ref: dict[str, Any] = obj.get("roleRef", {})
    if ref.get("kind") == "ClusterRole" and ref["name"].startswith("penstock-"):
        ref["name"] += f"-{suffix}"
    return obj


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=WAYS)
async def installed(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    admin: Client,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Installed]:
    names = {each: await namespaces.create(admin) for each in ("here", "tenant", "bound")}
    here = names["here"]
    objects = built(control_plane, request.param, here, tmp_path_factory.mktemp("rights"))
    for each in installation.moved((DEPLOY / "tenant/rbac.yaml").read_text(), here):
        each["metadata"]["namespace"] = names["bound"]
        objects.append(renamed(each, here))
    for obj in objects:
        await admin.apply(obj, manager="test")
    await noticed(admin, objects)
    async with contextlib.AsyncExitStack() as opened:
        tokens = {}
        for account in ACCOUNTS:
            path = f"/api/v1/namespaces/{here}/serviceaccounts/{account}/token"
            made = await admin.request("POST", path, body=TOKEN)
            kubeconfig = control_plane.kubeconfig_for(
                f"{account}-{here}", token=made["status"]["token"]
            )
            client = Client.open(config.from_environment(str(kubeconfig)))
            tokens[account] = await opened.enter_async_context(client)
        yield Installed(names, tokens)
    for obj in objects:
        if obj["kind"].startswith("ClusterRole"):
            gvk = GroupVersionKind.parse(obj["apiVersion"], obj["kind"])
            await admin.delete(gvk, obj["metadata"]["name"])


async def noticed(admin: Client, objects: list[Json]) -> None:
    """Wait until the API server answers by every binding."""
    roles = {
        (each["kind"], each["metadata"]["name"]): each.get("rules") or ()
        for each in objects
        if each["kind"] in {"ClusterRole", "Role"}
    }
    for each in objects:
        if each["kind"].endswith("Binding"):
            (subject,) = each["subjects"]
            user = impersonation.service_account(subject["namespace"], subject["name"])
            rules = roles.get((each["roleRef"]["kind"], each["roleRef"]["name"]), ())
            if each["roleRef"]["name"].startswith("penstock-inventory-reader"):
                rules = VIEWED
            namespace = each["metadata"].get("namespace", "")
            await rights.noticed(admin, user, *rules, namespace=namespace)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["installed"])


async def test_each_process_may_do_what_the_page_says(installed: Installed, way: str) -> None:
    wrong = [
        (account, attempt, cell)
        for attempt, *cells in LINES[1:]
        for account, cell in zip(ACCOUNTS, cells, strict=True)
        if await installed.may(account, attempt) is not CELLS[cell][way]
    ]

    assert wrong == []


async def test_every_attempt_is_on_the_page() -> None:
    assert [line[0] for line in LINES[1:]] == list(ATTEMPTS)


async def test_a_namespace_that_binds_the_controllers_is_served(installed: Installed) -> None:
    bound = {"tenant": installed.names["bound"]}

    assert await installed.may("source-controller", "read a Secret by its name", **bound)
    for applier in ("kustomize-controller", "helm-controller"):
        assert await installed.may(applier, "act as a service account", **bound)
        assert not await installed.may(applier, "write Secrets", **bound)


async def test_requests_are_answered_as_the_reviews_say(installed: Installed, way: str) -> None:
    tenant, bound = installed.names["tenant"], installed.names["bound"]
    applier, source = (installed.tokens[f"{each}-controller"] for each in ("kustomize", "source"))

    async def refused(client: Client, method: str, path: str, body: Json | None = None) -> str:
        with pytest.raises(ForbiddenError) as caught:
            await client.request(method, path, body=body)
        return str(caught.value)

    tenants = "/api/v1/namespaces/{}/serviceaccounts/default".format
    node = await refused(applier, "GET", "/api/v1/nodes/node-1/proxy/pods")
    listed = await refused(source, "GET", f"/api/v1/namespaces/{tenant}/secrets")
    minted = [await made(applier, f"{tenants(each)}/token") for each in (tenant, bound)]
    acted = [await acts(applier, namespace) for namespace in (tenant, bound)]

    assert "nodes/proxy" in node
    assert "secrets" in listed
    assert minted == [way == "everything", way == "everything"]
    assert acted == [way != "by-namespace", True]
    assert not await acts(source, bound)
    assert await made(applier, f"{tenants(installed.names['here'])}/token") is (way == "everything")


async def made(client: Client, path: str) -> bool:
    """Tell whether a token is given."""
    try:
        await client.request("POST", path, body=TOKEN)
    except ForbiddenError:
        return False
    return True


async def acts(client: Client, namespace: str) -> bool:
    """Tell whether a process may be the tenant's default account, who may read nothing."""
    user = impersonation.service_account(namespace, "default")
    with pytest.raises(ForbiddenError) as caught:
        await client.impersonating(user, extra={}).get(CONFIG_MAP, "settings", namespace)
    told = re.search(r'cannot (impersonate|get)\S* resource "(\w+)"', str(caught.value))
    assert told, caught.value
    return told[1] == "get"
