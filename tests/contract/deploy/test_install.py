"""The API server takes every way to install, and its admission lets the pods in.

All writes are dry runs, in a namespace of the test: other tests of the run need the real one.
"""

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane
from tests.tools import installation
from toolkit.objects import Json

DEPLOY = Path(__file__).parents[3] / "deploy"
WAYS = ["base", "overlays/flux-system", "overlays/ha", "overlays/kind", "overlays/lockdown"]
LEVEL = "pod-security.kubernetes.io/enforce=restricted"


Build = Callable[[str], list[Json]]


@pytest.fixture(scope="module")
def build(control_plane: ControlPlane) -> Build:
    """Give what kustomize makes of a way to install, which the tests only read."""
    return functools.cache(lambda way: installation.built(control_plane, DEPLOY / way))


def of_kind(documents: list[Json], kind: str) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


@pytest.mark.parametrize("way", WAYS)
def test_an_installation_applies_under_strict_validation(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, way: str
) -> None:
    elsewhere = {"namespace": namespace, "resources": [os.path.relpath(DEPLOY / way, tmp_path)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(elsewhere))

    applied = control_plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--field-manager=penstock"),
        *("--dry-run=server", "--validate=strict", "-k", str(tmp_path)),
    )

    assert "deployment.apps/source-controller serverside-applied" in applied
    assert "deployment.apps/kustomize-controller serverside-applied" in applied
    assert "deployment.apps/helm-controller serverside-applied" in applied
    assert "gitrepositories.source.toolkit.fluxcd.io serverside-applied" in applied


@pytest.mark.parametrize("way", WAYS)
def test_the_pods_are_admitted_to_a_restricted_namespace(
    control_plane: ControlPlane, build: Build, namespace: str, way: str
) -> None:
    control_plane.kubectl("label", "namespace", namespace, LEVEL)
    control_plane.kubectl("create", "serviceaccount", "tester", "-n", namespace)
    for name, deployment in of_kind(build(way), "Deployment").items():
        template = deployment["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        pod |= {"spec": template["spec"] | {"serviceAccountName": "tester"}}

        created = control_plane.kubectl(
            *("create", "-n", namespace, "--dry-run=server", "-f", "-"), stdin=yaml.safe_dump(pod)
        )

        assert "created (server dry run)" in created


def test_a_privileged_pod_would_not_be_admitted(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubectl("label", "namespace", namespace, LEVEL)
    control_plane.kubectl("create", "serviceaccount", "tester", "-n", namespace)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare"},
        "spec": {
            "serviceAccountName": "tester",
            "containers": [{"name": "manager", "image": "penstock"}],
        },
    }

    with pytest.raises(ControlPlaneError, match='violates PodSecurity "restricted:latest"'):
        control_plane.kubectl(
            *("create", "-n", namespace, "--dry-run=server", "-f", "-"), stdin=yaml.safe_dump(pod)
        )


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


def test_a_locked_down_installation_binds_no_administrator(build: Build) -> None:
    usual = of_kind(build("base"), "ClusterRoleBinding")
    locked = of_kind(build("overlays/lockdown"), "ClusterRoleBinding")

    def administrators(bindings: dict[str, Json]) -> list[str]:
        return [n for n, each in bindings.items() if each["roleRef"]["name"] == "cluster-admin"]

    assert sorted(administrators(usual)) == ["penstock-helm-applier", "penstock-kustomize-applier"]
    assert administrators(locked) == []
    assert locked


def test_a_locked_down_installation_tells_all_processes_the_same(build: Build) -> None:
    deployments = of_kind(build("overlays/lockdown"), "Deployment")

    args = {
        name: each["spec"]["template"]["spec"]["containers"][0]["args"]
        for name, each in deployments.items()
    }
    for decides in ("source-controller", "kustomize-controller", "helm-controller", "webhook"):
        assert "--no-cross-namespace-refs=true" in args[decides]
        assert "--default-service-account=default" in args[decides]
        assert "--default-kubeconfig-service-account=default" in args[decides]


def test_nothing_that_is_locked_down_signs_in_as_itself_for_others(build: Build) -> None:
    deployments = of_kind(build("overlays/lockdown"), "Deployment")

    for name, each in deployments.items():
        args = each["spec"]["template"]["spec"]["containers"][0]["args"]
        assert not [word for word in args if word.startswith("--shared-")], name


def test_an_installation_with_identities_at_clouds_is_built_and_applied(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    def place(way: str) -> str:
        return os.path.relpath(DEPLOY / way, tmp_path)

    whole = {
        "namespace": namespace,
        "resources": [place("base")],
        "components": [place("components/workload-identity")],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(whole))
    documents = installation.built(control_plane, tmp_path)

    applied = control_plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--field-manager=penstock"),
        *("--dry-run=server", "--validate=strict", "-k", str(tmp_path)),
    )

    gate = "--feature-gates=ObjectLevelWorkloadIdentity=true"
    told = {
        name
        for name, each in of_kind(documents, "Deployment").items()
        if gate in each["spec"]["template"]["spec"]["containers"][0]["args"]
    }
    assert told == {"source-controller", "kustomize-controller", "helm-controller", "webhook"}
    bindings = of_kind(documents, "ClusterRoleBinding")
    for account in ("source-controller", "webhook"):
        name = f"penstock-{account}-workload-identity"
        assert bindings[name]["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        ]
        assert f"clusterrolebinding.rbac.authorization.k8s.io/{name} serverside" in applied


def test_a_component_has_missing_grants_warned_of_alone(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    whole = {
        "resources": [os.path.relpath(DEPLOY / "base", tmp_path)],
        "components": [os.path.relpath(DEPLOY / "components/warn-cross-namespace-refs", tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(whole))
    documents = installation.built(control_plane, tmp_path)

    told = {
        name
        for name, each in of_kind(documents, "Deployment").items()
        if "--cross-namespace-refs=warn"
        in each["spec"]["template"]["spec"]["containers"][0]["args"]
    }
    assert told == {"source-controller", "kustomize-controller", "helm-controller", "webhook"}


def test_decryption_at_admission_is_added_by_a_component(
    control_plane: ControlPlane, build: Build, namespace: str, tmp_path: Path
) -> None:
    name = "penstock-webhook-decryption"
    whole = {
        "namespace": namespace,
        "resources": [os.path.relpath(DEPLOY / "base", tmp_path)],
        "components": [os.path.relpath(DEPLOY / "components/decryption", tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(whole))
    documents = installation.built(control_plane, tmp_path)

    assert name not in of_kind(build("base"), "ClusterRole")
    assert name in of_kind(documents, "ClusterRole")
    assert of_kind(documents, "ClusterRoleBinding")[name]["subjects"] == [
        {"kind": "ServiceAccount", "name": "webhook", "namespace": namespace}
    ]


def test_high_availability_runs_two_replicas_that_elect_one(build: Build) -> None:
    deployments = of_kind(build("overlays/ha"), "Deployment")

    assert {name: each["spec"]["replicas"] for name, each in deployments.items()} == {
        "source-controller": 2,
        "kustomize-controller": 2,
        "helm-controller": 2,
        "webhook": 2,
        "penstock-apiserver": 2,
    }
    for each in deployments.values():
        container = each["spec"]["template"]["spec"]["containers"][0]
        assert "--enable-leader-election=true" in container["args"]
