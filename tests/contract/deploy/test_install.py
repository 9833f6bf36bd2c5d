"""The API server takes every way to install, and its admission lets the pods in.

All writes are dry runs, in a namespace of the test: other tests of the run need the real one. What
a way has in common with the base is sent once, and the definitions with the base alone.
"""

import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from controllers import components
from controlplane.plane import ControlPlane
from tests.tools import installation, namespaces
from tests.tools.administrator import Administrator, RefusedError
from toolkit.kube import options
from toolkit.objects import Json, dig

DEPLOY = Path(__file__).parents[3] / "deploy"
COMPONENTS = {each.name: (each.name,) for each in (DEPLOY / "components").iterdir()}
WAYS = {
    "base": (),
    **COMPONENTS,
    "together": ("sharding", "ha", "monitoring", "workload-identity", "by-namespace", "lockdown"),
}
INCLUDED = "network-policies"
"""The component that is a part of the base."""
FOREIGN = ("cert-manager.io/", "monitoring.coreos.com/")
"""Kinds of others, which the API server of the test does not serve."""
SHARDED = ("source-controller", "kustomize-controller", "helm-controller", "image-controller")
"""Those that divide their objects."""
CONTROLLERS = (*SHARDED, "notification-controller")
CLUSTER_WIDE = (
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Namespace",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
LEVEL = "pod-security.kubernetes.io/enforce"

Build = Callable[[str], list[Json]]


@pytest.fixture(scope="module")
def build(control_plane: ControlPlane) -> Build:
    """Give what kustomize makes of a folder, which the tests only read."""
    return functools.cache(lambda way: installation.built(control_plane, DEPLOY / way))


class Room:
    """A restricted namespace, and what was sent to it."""

    def __init__(self, administrator: Administrator, plane: ControlPlane, folder: Path) -> None:
        self.administrator, self.plane, self.folder = administrator, plane, folder
        self.namespace = namespaces.create_blocking(administrator)
        labels = {"metadata": {"labels": {LEVEL: "restricted"}}}
        administrator.send(
            *("PATCH", f"/api/v1/namespaces/{self.namespace}", labels),
            content="application/merge-patch+json",
        )
        self.way = functools.cache(self._way)
        self._sent: set[str] = set()

    def _way(self, name: str) -> list[Json]:
        """Return what is installed in a way, without the definitions."""
        base = yaml.safe_load((DEPLOY / "base/kustomization.yaml").read_text())

        def place(path: str) -> str:
            return os.path.relpath(DEPLOY / path, self.folder)

        chosen = [f"components/{each}" for each in WAYS[name] if each != INCLUDED]
        own = [f"base/{each}" for each in base["components"] if each != "definitions"]
        resources = [each for each in base["resources"] if not each.endswith(".yaml")]
        whole = {
            "namespace": self.namespace,
            "resources": [place(f"base/{each}") for each in resources],
            # Labels last, as if the component had been a part of the base.
            "components": [place(each) for each in (*own, *chosen)],
        }
        (self.folder / "kustomization.yaml").write_text(yaml.safe_dump(whole))
        return installation.built(self.plane, self.folder)

    def apply(self, obj: Json) -> None:
        """Apply an object by a dry run under strict validation, unless the like of it was."""
        if self._new(obj):
            kind, meta = obj["kind"].lower(), obj["metadata"]
            plural = kind[:-1] + "ies" if kind.endswith("y") else kind + "s"
            version = obj["apiVersion"]
            # kubectl's kustomize takes these for namespaced; the API server ignores it, in objects.
            placed = "namespace" in meta and not kind.startswith("validatingadmissionpolicy")
            place = f"/namespaces/{meta['namespace']}" if placed else ""
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            self.administrator.send(
                *("PATCH", f"{root}{place}/{plural}/{meta['name']}", obj),
                content="application/apply-patch+yaml",
                query={
                    "dryRun": "All",
                    "fieldManager": "penstock",
                    "force": "true",
                    "fieldValidation": "Strict",
                },
            )

    def admit(self, spec: Json) -> None:
        """Have a pod admitted by a dry run, unless the like of it was."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        if self._new(pod):
            path = f"/api/v1/namespaces/{self.namespace}/pods"
            self.administrator.send("POST", path, pod, query={"dryRun": "All"})

    def _new(self, obj: Json) -> bool:
        text = json.dumps(obj, sort_keys=True)
        known = text in self._sent
        self._sent.add(text)
        return not known


@pytest.fixture(scope="module")
def room(
    administrator: Administrator,
    control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Room]:
    made = Room(administrator, control_plane, tmp_path_factory.mktemp("ways"))
    yield made
    namespaces.delete_blocking(administrator, made.namespace)


def of_kind(documents: list[Json], kind: str) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


def arguments(deployment: Json) -> list[str]:
    args: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return args


def told(documents: list[Json], argument: str) -> set[str]:
    """Return the Deployments that are started with an argument."""
    found = of_kind(documents, "Deployment").items()
    return {name for name, each in found if argument in arguments(each)}


def test_kubectl_applies_an_installation_under_strict_validation(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    elsewhere = {"namespace": namespace, "resources": [os.path.relpath(DEPLOY / "base", tmp_path)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(elsewhere))

    applied = control_plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--field-manager=penstock"),
        *("--dry-run=server", "--validate=strict", "-k", str(tmp_path)),
    )

    for controller in CONTROLLERS:
        assert f"deployment.apps/{controller} serverside-applied" in applied
    assert "gitrepositories.source.toolkit.fluxcd.io serverside-applied" in applied


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_install_is_applied_and_its_pods_are_admitted(room: Room, way: str) -> None:
    documents = room.way(way)

    for obj in documents:
        if not obj["apiVersion"].startswith(FOREIGN):
            room.apply(obj)
    deployments = of_kind(documents, "Deployment")
    for deployment in deployments.values():
        template = deployment["spec"]["template"]["spec"]
        room.admit(template | {"serviceAccountName": "default"})

    assert {*CONTROLLERS, "webhook", "penstock-apiserver"} <= deployments.keys()


def test_a_privileged_pod_would_not_be_admitted(room: Room) -> None:
    with pytest.raises(RefusedError, match='violates PodSecurity "restricted:latest"'):
        room.admit({"containers": [{"name": "manager", "image": "penstock"}]})


@pytest.mark.parametrize("way", WAYS)
def test_one_node_schedules_every_replica(room: Room, way: str) -> None:
    for name, deployment in of_kind(room.way(way), "Deployment").items():
        spec = deployment["spec"]["template"]["spec"]
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        spread = spec.get("topologySpreadConstraints", ())

        assert required not in dig(spec, "affinity", "podAntiAffinity", default={}), name
        assert all(each["whenUnsatisfiable"] == "ScheduleAnyway" for each in spread), name


@pytest.mark.parametrize("way", WAYS)
def test_each_container_has_what_a_kubelet_needs(room: Room, way: str) -> None:
    for name, deployment in of_kind(room.way(way), "Deployment").items():
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]

        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), name
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
        assert "memory" in container["resources"]["limits"], name
        assert spec["priorityClassName"] == "system-cluster-critical", name


def test_a_node_can_be_drained(room: Room) -> None:
    documents = room.way("together")
    deployments = of_kind(documents, "Deployment").values()

    for budget in of_kind(documents, "PodDisruptionBudget").values():
        wanted = budget["spec"]["selector"]["matchLabels"].items()
        chosen = [
            each
            for each in deployments
            if wanted <= each["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert [each["spec"]["replicas"] for each in chosen] == [2], budget["metadata"]["name"]
        assert budget["spec"]["maxUnavailable"] == 1
        # Only the leader of this one is ready, and would never be evicted.
        assert chosen[0]["metadata"]["name"] != "source-controller"
    budgets = {*CONTROLLERS, "webhook", "penstock-apiserver"} - {"source-controller"}
    assert set(of_kind(documents, "PodDisruptionBudget")) == budgets


def test_a_shard_has_its_objects_its_service_and_its_lease(room: Room) -> None:
    documents = room.way("sharding")
    roles, bindings = of_kind(documents, "Role"), of_kind(documents, "RoleBinding")
    deployments = of_kind(documents, "Deployment")

    for name in SHARDED:
        shard = deployments[f"{name}-shard1"]
        parsed = options.parse(arguments(shard), components=components.NAMES)
        main = options.parse(arguments(deployments[name]), components=components.NAMES)
        held = {
            x for rule in roles[f"{name}-shard1"]["rules"] for x in rule.get("resourceNames", ())
        }

        assert parsed.watch_label_selector == "sharding.fluxcd.io/key=shard1"
        assert main.watch_label_selector == "!sharding.fluxcd.io/key"
        assert held == {parsed.lease(name)} == {f"{name}-shard1"}
        assert bindings[f"{name}-shard1"]["subjects"] == [
            {"kind": "ServiceAccount", "name": name, "namespace": room.namespace}
        ]
        assert shard["spec"]["template"]["spec"]["serviceAccountName"] == name
        (container,) = shard["spec"]["template"]["spec"]["containers"]
        (same,) = deployments[name]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == same["image"]
        assert shard["spec"]["selector"]["matchLabels"] == {"app": f"{name}-shard1"}
    service = of_kind(documents, "Service")["source-controller-shard1"]
    assert service["spec"]["selector"] == {"app": "source-controller-shard1"}
    assert arguments(deployments["source-controller-shard1"])[-1] == (
        "--storage-adv-addr=source-controller-shard1.$(RUNTIME_NAMESPACE).svc.cluster.local."
    )


def test_a_shard_is_locked_down_as_all_others(room: Room) -> None:
    documents = room.way("together")
    shards = {f"{name}-shard1" for name in SHARDED}

    assert shards < told(documents, "--no-cross-namespace-refs=true")
    assert {of_kind(documents, "Deployment")[name]["spec"]["replicas"] for name in shards} == {2}


def test_every_process_is_scraped(room: Room) -> None:
    documents = room.way("together")
    service = of_kind(documents, "Service")["penstock-metrics"]
    (port,) = service["spec"]["ports"]

    for name, deployment in of_kind(documents, "Deployment").items():
        template = deployment["spec"]["template"]
        ports = {each["name"] for each in template["spec"]["containers"][0]["ports"]}
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items(), name
        assert port["targetPort"] in ports
    monitor = of_kind(documents, "ServiceMonitor")["penstock"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert of_kind(documents, "PrometheusRule").keys() == {"penstock"}
    boards = of_kind(documents, "ConfigMap")["penstock-dashboards"]
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert all(json.loads(text)["panels"] for text in boards["data"].values())


def test_cert_manager_makes_the_secrets_that_the_processes_look_for(room: Room) -> None:
    certificates = of_kind(room.way("cert-manager"), "Certificate")

    for name in ("webhook", "penstock-apiserver"):
        assert certificates[name]["spec"]["secretName"] == f"{name}-tls"
        assert f"{name}.penstock-system.svc" in certificates[name]["spec"]["dnsNames"]


@pytest.mark.parametrize("overlay", ["ha", "lockdown", "kind"])
def test_an_overlay_is_a_component_on_the_base(overlay: str) -> None:
    found = yaml.safe_load((DEPLOY / "overlays" / overlay / "kustomization.yaml").read_text())
    component = {"kind": "dev"}.get(overlay, overlay)

    assert found["resources"] == ["../../base"]
    assert found["components"] == [f"../../components/{component}"]


def test_an_overlay_that_names_no_namespace_installs_into_ours(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """What a component adds to an overlay gets neither the namespace nor the labels of the base."""
    chosen = [each for each in COMPONENTS if each not in {INCLUDED, "dev"}]
    overlay = {
        "resources": [os.path.relpath(DEPLOY / "base", tmp_path)],
        "components": [os.path.relpath(DEPLOY / "components" / each, tmp_path) for each in chosen],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    documents = installation.built(control_plane, tmp_path)

    places = {each["metadata"].get("namespace", each["kind"]) for each in documents}
    assert places == {"penstock-system", *CLUSTER_WIDE}
    # By this label it is found, and removed by `penstock uninstall`.
    label = ("metadata", "labels", "app.kubernetes.io/instance")
    assert {dig(each, *label, default="") for each in documents} == {"penstock-system"}


def test_every_account_that_a_deployment_names_is_installed(build: Build) -> None:
    documents = build("base")

    accounts = of_kind(documents, "ServiceAccount")
    for name, deployment in of_kind(documents, "Deployment").items():
        assert deployment["spec"]["template"]["spec"]["serviceAccountName"] in accounts, name


def test_the_namespace_is_restricted(build: Build) -> None:
    (namespace,) = of_kind(build("base"), "Namespace").values()

    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_namespace_of_flux_takes_a_whole_installation(build: Build) -> None:
    documents = build("overlays/flux-system")

    assert list(of_kind(documents, "Namespace")) == ["flux-system"]
    label = '"app.kubernetes.io/instance": "penstock-system"'
    assert "penstock-system" not in json.dumps(documents).replace(label, "")


@pytest.mark.parametrize(
    ("way", "namespaces"),
    [
        ("base/policy", {"penstock-system", "flux-system"}),
        ("base/policy/flux-system", {"flux-system"}),
    ],
)
def test_sources_of_the_install_namespace_and_of_flux_are_shared(
    build: Build, way: str, namespaces: set[str]
) -> None:
    documents = build(way)

    assert {each["metadata"]["namespace"] for each in documents} == namespaces
    assert {each["kind"] for each in documents} == {"ReferenceGrant"}
    assert len({yaml.safe_dump(each["spec"]) for each in documents}) == 1


def test_a_locked_down_installation_binds_no_administrator(room: Room) -> None:
    usual = of_kind(room.way("base"), "ClusterRoleBinding")
    locked = of_kind(room.way("lockdown"), "ClusterRoleBinding")

    def administrators(bindings: dict[str, Json]) -> list[str]:
        return [n for n, each in bindings.items() if each["roleRef"]["name"] == "cluster-admin"]

    assert sorted(administrators(usual)) == ["penstock-helm-applier", "penstock-kustomize-applier"]
    assert administrators(locked) == []
    assert locked


def test_a_locked_down_installation_tells_all_processes_the_same(room: Room) -> None:
    documents = room.way("lockdown")

    for argument in (
        "--no-cross-namespace-refs=true",
        "--default-service-account=default",
        "--default-kubeconfig-service-account=default",
    ):
        assert told(documents, argument) == {*CONTROLLERS, "webhook"}


def test_nothing_that_is_locked_down_signs_in_as_itself_for_others(room: Room) -> None:
    for name, each in of_kind(room.way("lockdown"), "Deployment").items():
        assert not [word for word in arguments(each) if word.startswith("--shared-")], name


def test_events_are_kept_on_a_volume_that_outlives_the_pod(room: Room) -> None:
    documents = room.way("persistent-events")
    deployment = of_kind(documents, "Deployment")["notification-controller"]

    (claim,) = of_kind(documents, "PersistentVolumeClaim")
    volumes = {
        each["name"]: each for each in dig(deployment, "spec", "template", "spec", "volumes")
    }
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": claim}
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_identities_at_clouds_are_added_by_a_component(room: Room) -> None:
    documents = room.way("workload-identity")

    gate = "--feature-gates=ObjectLevelWorkloadIdentity=true"
    assert told(documents, gate) == {*CONTROLLERS, "webhook"}
    bindings = of_kind(documents, "ClusterRoleBinding")
    for account in (*CONTROLLERS, "webhook"):
        assert bindings[f"penstock-{account}-workload-identity"]["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": room.namespace}
        ]


def test_a_component_has_missing_grants_warned_of_alone(room: Room) -> None:
    documents = room.way("warn-cross-namespace-refs")

    assert told(documents, "--cross-namespace-refs=warn") == {*CONTROLLERS, "webhook"}


def test_decryption_at_admission_is_added_by_a_component(room: Room) -> None:
    name = "penstock-webhook-decryption"

    assert name not in of_kind(room.way("base"), "ClusterRole")
    assert name in of_kind(room.way("decryption"), "ClusterRole")
    assert of_kind(room.way("decryption"), "ClusterRoleBinding")[name]["subjects"] == [
        {"kind": "ServiceAccount", "name": "webhook", "namespace": room.namespace}
    ]


def test_namespaces_are_entered_where_they_bind_the_controllers(room: Room) -> None:
    everywhere = of_kind(room.way("base"), "ClusterRoleBinding")
    listed = of_kind(room.way("by-namespace"), "ClusterRoleBinding")

    assert everywhere.keys() - listed.keys() == {f"penstock-{c}-tenants" for c in CONTROLLERS}


def test_high_availability_runs_two_replicas_that_elect_one(room: Room) -> None:
    deployments = of_kind(room.way("ha"), "Deployment")

    assert {name: each["spec"]["replicas"] for name, each in deployments.items()} == dict.fromkeys(
        (*CONTROLLERS, "webhook", "penstock-apiserver"), 2
    )
    for name, each in deployments.items():
        assert "--enable-leader-election=true" in arguments(each)
        spread = dig(each, "spec", "template", "spec", "affinity", "podAntiAffinity")
        (row,) = spread["preferredDuringSchedulingIgnoredDuringExecution"]
        term = row["podAffinityTerm"]
        assert term["topologyKey"] == "kubernetes.io/hostname", name
        # One of its own kind, and not of all processes.
        own = term["labelSelector"]["matchLabels"].get("app") == name
        assert own or "app" in term.get("matchLabelKeys", ()), name


def test_on_one_node_an_image_that_was_built_there_runs(room: Room) -> None:
    for each in of_kind(room.way("dev"), "Deployment").values():
        (container,) = each["spec"]["template"]["spec"]["containers"]

        assert (container["image"], container["imagePullPolicy"]) == ("penstock:dev", "Never")
        assert each["spec"]["replicas"] == 1
