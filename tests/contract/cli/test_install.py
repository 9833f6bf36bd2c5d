"""Install, look, change and uninstall, in a cluster where nothing else is; kwok runs the pods.

The tests follow one installation through its life, in the order of this file.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from cli.stack import stack as stacks
from controlplane import plane
from controlplane.plane import ControlPlane
from crds import KINDS
from tests.contract.cli.conftest import Penstock, Result, command_in
from tests.fakes.gitserver import GitServer
from tests.fakes.hosting import Hosting
from tests.fakes.serving import certified
from tests.tools.administrator import Administrator, RefusedError
from tests.tools.waiting import until
from toolkit.objects import Json, dig

pytestmark = pytest.mark.xdist_group("install")

PLACE, SHARED = "penstock-system", "flux-system"
_AT = {"reason": "Progressing", "lastTransitionTime": "2026-01-01T00:00:00Z"}
OURS, OTHERS = "finalizers.fluxcd.io", "example.com/other"
DEPLOYMENTS = {
    "source-controller",
    "kustomize-controller",
    "helm-controller",
    "notification-controller",
    "image-controller",
    "webhook",
    "penstock-apiserver",
}
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KEYS = "penstock-webhook-decryption"
"""What the component `decryption` adds, which starts no pod anew."""
KUSTOMIZATIONS = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/default/kustomizations"
RUNNING = ("source", "kustomize", "webhooks")
GATE = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
FOLDER = f"clusters/prod/{PLACE}"
FILES = ("gotk-components.yaml", "gotk-sync.yaml", "kustomization.yaml")
FOLLOWED = (
    f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{PLACE}/gitrepositories/{PLACE}",
    f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{PLACE}/kustomizations/{PLACE}",
    f"/apis/apps/v1/namespaces/{PLACE}/deployments/webhook",
)
SECRETS = f"/api/v1/namespaces/{PLACE}/secrets"
TOKEN = "token-s3cret"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """Give a cluster that only these tests use: uninstalling concerns all namespaces."""
    with plane.start("pytest-install", alternatives=8) as running:
        yield running


@pytest.fixture(scope="module")
def asked(cluster: ControlPlane) -> Iterator[Administrator]:
    with Administrator.of(cluster) as administrator:
        yield administrator


@pytest.fixture
def penstock(
    cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Penstock:
    return command_in(cluster, monkeypatch, capsys)


def rows(result: Result) -> dict[str, bool]:
    return {row["check"]: row["ok"] for row in json.loads(result.out)}


def names(asked: Administrator, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in asked.send("GET", path)["items"]}


def deployments(asked: Administrator) -> dict[str, Json]:
    items = asked.send("GET", f"/apis/apps/v1/namespaces/{PLACE}/deployments")["items"]
    return {item["metadata"]["name"]: item for item in items}


def create(asked: Administrator, path: str, name: str, **more: Json) -> None:
    version, kind, metadata = more.pop("version"), more.pop("kind"), more.pop("metadata", {})
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, **more}
    asked.send("POST", path, body)


def test_nothing_is_installed_at_first(penstock: Penstock) -> None:
    before, all_of_it = penstock("check", "--pre", "-o", "json"), penstock("check", "-o", "json")

    assert before.code == 0
    assert rows(before) == {"Kubernetes version": True, "permissions": True}
    assert all_of_it.code == 1
    assert rows(all_of_it)["Deployments"] is False
    assert "penstock install" in all_of_it.out
    assert penstock("uninstall", "--silent").err == "✔ nothing is installed\n"


def test_flux_beside_us_is_refused(penstock: Penstock, asked: Administrator) -> None:
    flux, labels = "/apis/apps/v1/namespaces/default/deployments", {"app": "flux"}
    pod = {"containers": [{"name": "manager", "image": "none"}]}
    create(
        asked,
        flux,
        "source-controller",
        version="apps/v1",
        kind="Deployment",
        metadata={"labels": {"app.kubernetes.io/part-of": "flux"}},
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    )
    try:
        refused = penstock("install")
    finally:
        asked.send("DELETE", f"{flux}/source-controller")

    assert refused.code == 1
    assert "Deployment default/source-controller of Flux reconciles the same objects" in refused.err
    assert "--force" in refused.err
    with pytest.raises(RefusedError):
        asked.send("GET", f"/api/v1/namespaces/{PLACE}")


PULLED = (
    *("--registry", "registry.example.com/team", "--image-pull-secret", "pull"),
    *("--registry-creds", "ada:s3cret"),
)


@pytest.mark.parametrize(
    ("component", "kinds"),
    [
        ("monitoring", "PrometheusRule and ServiceMonitor of monitoring.coreos.com/v1"),
        ("cert-manager", "Certificate and Issuer of cert-manager.io/v1"),
    ],
)
def test_a_component_whose_kinds_are_not_served_is_refused_before_the_first_write(
    penstock: Penstock, asked: Administrator, component: str, kinds: str
) -> None:
    told = penstock("install", "--components", component)

    assert told.code == 1
    assert f"component '{component}' needs {kinds}, which the cluster does not serve" in told.err
    assert names(asked, DEFINITIONS) == set()


def test_an_installation_becomes_ready_and_is_found_well(
    penstock: Penstock, asked: Administrator
) -> None:
    done = penstock("install", "--components", "decryption", "--timeout", "2m", *PULLED)

    assert done.code == 0, done.err
    assert f"{PLACE}/pull" not in penstock("install", "--export", *PULLED).out
    assert "pull" in names(asked, f"/api/v1/namespaces/{PLACE}/secrets")
    assert "◎ waiting for 7 Deployments" in done.err
    found = deployments(asked)
    assert found.keys() == DEPLOYMENTS
    for each in found.values():
        assert dig(each, "status", "readyReplicas") == dig(each, "spec", "replicas")
    assert KEYS in names(asked, ROLES)
    assert "default" in names(asked, _grants(PLACE))
    assert "default" in names(asked, _grants("flux-system"))
    seen = rows(penstock("check", "-o", "json"))
    assert {f"Deployment {name}": True for name in DEPLOYMENTS}.items() <= seen.items()
    assert seen["definitions"] is True
    # kwok's pods are ready, and serve nothing
    assert seen["admission"] is seen["aggregated API"] is False
    told = json.loads(penstock("version", "-o", "json").out)
    assert told.keys() == DEPLOYMENTS | {"penstock"}
    assert len(set(told.values())) == 1


def test_installing_again_brings_what_is_chosen_now_and_no_more(
    penstock: Penstock, asked: Administrator
) -> None:
    labels = {"app.kubernetes.io/instance": PLACE}
    create(
        asked,
        ROLES,
        "mine",
        version="rbac.authorization.k8s.io/v1",
        kind="ClusterRole",
        metadata={"labels": labels},
    )
    asked.send("DELETE", f"{_grants(PLACE)}/default")
    before = deployments(asked)["webhook"]["metadata"]["generation"]

    again = penstock("install", *PULLED)

    assert again.code == 0, again.err
    assert f"deleting ClusterRole {KEYS}, which is no longer part of it" in again.err
    # another one's object stays, whatever its labels
    assert names(asked, ROLES) & {KEYS, "mine"} == {"mine"}
    # what an administrator deletes stays deleted
    assert "default" not in names(asked, _grants(PLACE))
    # what is the same stays untouched
    assert deployments(asked)["webhook"]["metadata"]["generation"] == before


def test_what_an_earlier_version_has_left_is_found(
    penstock: Penstock, asked: Administrator
) -> None:
    labels = {
        "app.kubernetes.io/instance": "penstock-system",
        "app.kubernetes.io/version": "v0.0.1",
    }
    role = {"version": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    create(asked, ROLES, "penstock-earlier", metadata={"labels": labels}, **role)
    try:
        found = penstock("check", "-o", "json")
    finally:
        asked.send("DELETE", f"{ROLES}/penstock-earlier")

    assert rows(found)["other versions"] is False
    assert "left over" in found.out
    assert "ClusterRole penstock-earlier" in found.out
    assert "other versions" not in rows(penstock("check", "-o", "json"))


def test_another_namespace_is_refused(penstock: Penstock) -> None:
    refused = penstock("install", "--namespace", "elsewhere")

    assert refused.code == 1
    assert f"Penstock is installed in namespace {PLACE}: name it with --namespace" in refused.err


def test_uninstalling_flux_leaves_penstock_and_all_custom_resources(
    cluster: ControlPlane, penstock: Penstock, asked: Administrator, flux_program: Path
) -> None:
    before = names(asked, DEFINITIONS), names(asked, ROLES), names(asked, BINDINGS)
    make_kustomization(asked, "fleet")
    role = {"labels": {"app.kubernetes.io/part-of": "flux"}}
    version = "rbac.authorization.k8s.io/v1"
    create(asked, ROLES, "crd-controller", version=version, kind="ClusterRole", metadata=role)

    done = subprocess.run(
        [flux_program, "uninstall", "--silent", "--namespace=flux-system"],
        env={**cluster.environment(), "HOME": "/nonexistent"},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, "flux tells of the failure and goes on"
    assert "namespaces.penstock.dev" in done.stdout + done.stderr
    assert "allow-deletion=true" in done.stdout + done.stderr
    assert {PLACE, SHARED} <= names(asked, "/api/v1/namespaces")
    assert "deletionTimestamp" not in asked.send("GET", f"/api/v1/namespaces/{SHARED}")["metadata"]
    assert "ClusterRole/crd-controller deleted" in done.stdout + done.stderr
    asyncio.run(until(lambda: "distributions.penstock.dev" not in names(asked, DEFINITIONS)))
    left = names(asked, DEFINITIONS), names(asked, ROLES), names(asked, BINDINGS)
    assert left == (before[0] - {"distributions.penstock.dev"}, before[1], before[2])
    assert {kind.crd_name for kind in KINDS} <= left[0]
    assert deployments(asked).keys() == DEPLOYMENTS
    assert "default" in names(asked, _grants("flux-system"))
    assert "fleet" in names(asked, KUSTOMIZATIONS)
    asked.send("DELETE", f"{KUSTOMIZATIONS}/fleet")
    assert penstock("install").code == 0
    assert names(asked, DEFINITIONS) == before[0]


def test_namespaces_of_penstock_are_deleted_where_they_say_so(asked: Administrator) -> None:
    for name, labels in (("theirs", {}), ("named", {"app.kubernetes.io/part-of": "penstock"})):
        metadata: Json = {"labels": labels}
        create(asked, "/api/v1/namespaces", name, version="v1", kind="Namespace", metadata=metadata)

    asked.send("DELETE", "/api/v1/namespaces/theirs")
    for name in (PLACE, SHARED, "named"):
        with pytest.raises(RefusedError, match=f"annotate namespace {name} policy.penstock.dev/"):
            asked.send("DELETE", f"/api/v1/namespaces/{name}")
    annotated = {"metadata": {"annotations": {"policy.penstock.dev/allow-deletion": "true"}}}
    asked.send("PATCH", "/api/v1/namespaces/named", annotated, content=MERGE)
    asked.send("DELETE", "/api/v1/namespaces/named")


def test_what_git_applies_is_not_overwritten(penstock: Penstock, asked: Administrator) -> None:
    path = f"/apis/apps/v1/namespaces/{PLACE}/deployments/webhook"
    group = "kustomize.toolkit.fluxcd.io"
    labels: Json = {f"{group}/name": "flux-system", f"{group}/namespace": "flux-system"}
    asked.send("PATCH", path, {"metadata": {"labels": labels}}, content=MERGE)
    try:
        refused = penstock("install")
    finally:
        away = dict.fromkeys(labels)
        asked.send("PATCH", path, {"metadata": {"labels": away}}, content=MERGE)

    assert refused.code == 1
    assert "is applied by Kustomization flux-system/flux-system, which would undo" in refused.err


def _grants(namespace: str) -> str:
    return f"/apis/policy.penstock.dev/v1alpha1/namespaces/{namespace}/referencegrants"


def make_kustomization(asked: Administrator, name: str) -> None:
    """Make one as its controller leaves it."""
    source = {"kind": "GitRepository", "name": "any"}
    create(
        asked,
        KUSTOMIZATIONS,
        name,
        version="kustomize.toolkit.fluxcd.io/v1",
        kind="Kustomization",
        metadata={"finalizers": [OURS, OTHERS]},
        spec={"interval": "10m", "path": "./", "prune": True, "sourceRef": source},
    )


@contextmanager
def written_meanwhile(asked: Administrator, path: str) -> Iterator[None]:
    """Write an object once Deployments are being deleted, as their controllers still do."""
    deployment = f"/apis/apps/v1/namespaces/{PLACE}/deployments/webhook"
    hold, release = ({"metadata": {"finalizers": held}} for held in ([OTHERS], None))

    def write() -> None:
        asyncio.run(until(lambda: "deletionTimestamp" in asked.send("GET", deployment)["metadata"]))
        asked.send("PATCH", path, {"metadata": {"annotations": {"at": "last"}}}, content=MERGE)
        asked.send("PATCH", deployment, release, content=MERGE)

    asked.send("PATCH", deployment, hold, content=MERGE)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        yield
        written.result()


def test_pods_that_do_not_come_up_are_explained(penstock: Penstock, asked: Administrator) -> None:
    node = asked.send("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    path = f"/api/v1/nodes/{node}"
    asked.send("PATCH", path, {"spec": {"unschedulable": True}}, content=MERGE)
    try:
        late = penstock("install", "--image", "registry.example.com/penstock:v2", "--timeout", "3s")
    finally:
        asked.send("PATCH", path, {"spec": {"unschedulable": None}}, content=MERGE)

    assert late.code == 1
    assert "was not ready within 3s" in late.err
    assert "Unschedulable" in late.err


def test_uninstalling_refuses_what_would_be_orphaned_or_lost(
    penstock: Penstock, asked: Administrator
) -> None:
    secrets = f"/api/v1/namespaces/{PLACE}/secrets"
    accounts = f"/api/v1/namespaces/{PLACE}/serviceaccounts"
    create(asked, secrets, "mine", version="v1", kind="Secret")
    create(asked, accounts, "mine", version="v1", kind="ServiceAccount")
    lost = penstock("uninstall", "--silent")
    asked.send("DELETE", f"{secrets}/mine")
    asked.send("DELETE", f"{accounts}/mine")
    make_kustomization(asked, "going")
    asked.send("DELETE", f"{KUSTOMIZATIONS}/going")
    orphaned = penstock("uninstall", "--silent")
    asked.send(
        "PATCH", f"{KUSTOMIZATIONS}/going", {"metadata": {"finalizers": None}}, content=MERGE
    )

    assert lost.code == orphaned.code == 1
    refused = f"Secret {PLACE}/mine, ServiceAccount {PLACE}/mine: would be deleted with namespace"
    assert f"{refused} {PLACE}" in lost.err
    assert "--keep-namespace" in lost.err
    assert "Kustomization default/going: being deleted" in orphaned.err
    assert deployments(asked).keys() == DEPLOYMENTS


def test_uninstalling_leaves_workloads_and_custom_resources(
    penstock: Penstock, asked: Administrator
) -> None:
    make_kustomization(asked, "apps")
    working = [
        {**_AT, "type": "Ready", "status": "Unknown", "message": "Running health checks"},
        {**_AT, "type": "Reconciling", "status": "True", "message": "Running health checks"},
    ]
    asked.send(
        "PATCH", f"{KUSTOMIZATIONS}/apps/status", {"status": {"conditions": working}}, content=MERGE
    )
    would = penstock("uninstall", "--dry-run")
    assert would.code == 0
    assert f"Deployment/{PLACE}/webhook" in would.out.splitlines()
    assert deployments(asked).keys() == DEPLOYMENTS

    with written_meanwhile(asked, f"{KUSTOMIZATIONS}/apps"):
        done = penstock("uninstall", "--silent", "--keep-namespace")

    assert done.code == 0, done.err
    assert not deployments(asked)
    assert not [name for name in names(asked, ROLES) if name.startswith("penstock")]
    left = asked.send("GET", f"{KUSTOMIZATIONS}/apps")
    assert left["metadata"]["finalizers"] == [OTHERS]
    told = [(row["type"], row["status"], row["reason"]) for row in left["status"]["conditions"]]
    assert told == [("Ready", "False", "Uninstalled")]
    assert asked.send("GET", f"/api/v1/namespaces/{PLACE}")


def test_the_kinds_go_where_that_is_asked_for(penstock: Penstock, asked: Administrator) -> None:
    ours = {kind.crd_name for kind in KINDS}
    assert ours <= names(asked, DEFINITIONS)
    path = f"{KUSTOMIZATIONS}/apps"
    asked.send("PATCH", path, {"metadata": {"finalizers": [OURS]}}, content=MERGE)

    gone = penstock("uninstall", "--silent", "--custom-resources")

    assert gone.code == 0, gone.err
    assert not ours & names(asked, DEFINITIONS)
    # The installation has made it, and nothing of users is in it.
    assert SHARED not in names(asked, "/api/v1/namespaces")
    with pytest.raises(RefusedError):
        asked.send("GET", f"/api/v1/namespaces/{PLACE}")


def test_export_is_what_would_be_applied(penstock: Penstock) -> None:
    exported = penstock("install", "--export", "--components", "ha", "--namespace", "flux-system")

    assert exported.code == 0
    assert "kind: PodDisruptionBudget" in exported.out
    assert "penstock-system." not in exported.out
    assert "namespace: penstock-system" not in exported.out


async def test_a_repository_installs_and_then_applies_what_it_holds(
    cluster: ControlPlane,
    penstock: Penstock,
    asked: Administrator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pods are kwok's; the controllers and the gate that do the work run on this machine."""
    options = stacks.Options(namespace=PLACE, components=RUNNING, report=repr)
    async with (
        GitServer(tmp_path / "git") as server,
        stacks.start(cluster.kubeconfig, state=tmp_path / "state", options=options),
    ):
        repository = server.repository("fleet")
        repository.accept_pushes()
        said = ("bootstrap", "git", "--url", repository.url, "--path", "clusters/prod")

        assert "penstock" in names(asked, GATE)

        first = await asyncio.to_thread(penstock, *said, "--timeout", "2m")

        assert first.code == 0, first.err
        assert repository.listing().keys() == {f"{FOLDER}/{name}" for name in FILES}
        head = repository.revision("main")
        assert is_applied(first, head)
        found = deployments(asked)
        assert found.keys() == DEPLOYMENTS
        for each in found.values():
            assert each["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == PLACE
        before = [written(asked, path) for path in FOLLOWED]

        again = await asyncio.to_thread(penstock, *said, "--timeout", "2m")

        assert again.code == 0, again.err
        assert repository.revision("main") == head
        assert [written(asked, path) for path in FOLLOWED] == before

        refused = await asyncio.to_thread(penstock, "install")
        changed = await asyncio.to_thread(penstock, *said, "--components", "decryption")

        assert f"is applied by Kustomization {PLACE}/{PLACE}" in refused.err
        assert changed.code == 0, changed.err
        assert "applying" not in changed.err
        assert repository.revision("main^") == head
        assert KEYS in names(asked, ROLES)

        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        await move_to_a_service(penstock, asked, tmp_path)
        assert "penstock" in names(asked, GATE)

    removal = await asyncio.to_thread(penstock, "uninstall", "--dry-run")
    taken = {"data": {"password": "eA=="}}
    asked.send("PATCH", f"{SECRETS}/{PLACE}", taken, content=MERGE)
    refused = await asyncio.to_thread(penstock, "uninstall", "--dry-run")

    assert removal.code == 0, removal.err
    assert refused.code == 1
    assert refused.err.startswith(f"✗ Secret {PLACE}/{PLACE}: would be deleted with namespace")


def is_applied(result: Result, head: str) -> bool:
    """Tell whether the command says so: it has waited for it, or came when it was done."""
    revision = f"revision main@sha1:{head}\n"
    done = f"Kustomization {PLACE}/{PLACE} is at {revision}"
    return f"applied {revision}" in result.err or done in result.err


def written(asked: Administrator, path: str) -> tuple[int, Json]:
    """Return by what it is seen that somebody wrote an object, or asked for a reconciliation."""
    metadata = asked.send("GET", path)["metadata"]
    return metadata["generation"], metadata.get("annotations", {})


async def move_to_a_service(penstock: Penstock, asked: Administrator, tmp_path: Path) -> None:
    """Bootstrap again, with a repository at a hosting service that does not have it yet."""
    authority, ca = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    tls = certified(authority, "localhost")
    async with Hosting(tmp_path / "hosting", "github", tls=tls, token=TOKEN) as service:
        place = ("--hostname", service.hostname, "--owner", "acme", "--repository", "fleet")
        said = ("bootstrap", "github", *place, "--token-auth", "--ca-file", str(ca))

        moved = await asyncio.to_thread(penstock, *said, "--path", "clusters/prod")

        assert moved.code == 0, moved.err
        assert TOKEN not in moved.out + moved.err
        head = service.made["acme/fleet"].revision("main")
        assert is_applied(moved, head)
        source = asked.send("GET", FOLLOWED[0])
        assert source["spec"]["url"] == f"https://{service.hostname}/acme/fleet.git"
        assert source["spec"]["secretRef"] == {"name": PLACE}
        assert KEYS not in names(asked, ROLES)
