"""``penstock create``, ``export`` and ``delete`` write, print and remove objects."""

import base64
from typing import Any

import pytest
import yaml

from tests.contract.cli.conftest import SOURCE_GROUP, custom

_HELM = ("create", "source", "helm", "charts", "--url=oci://ghcr.io/charts")


def test_create_writes_and_then_updates(cluster: Any, penstock: Any) -> None:
    first = penstock(*_HELM, "-n", cluster.namespace, "--label=team=web")
    second = penstock(*_HELM, "-n", cluster.namespace, "--interval=5m")

    assert (first.code, second.code) == (0, 0)
    assert "HelmRepository created" in first.err
    assert "HelmRepository updated" in second.err
    live = cluster.read("HelmRepository", "charts")
    assert live["spec"]["interval"] == "5m0s"
    assert "labels" not in live["metadata"]


def test_create_waits_until_the_object_is_ready(cluster: Any, penstock: Any) -> None:
    spec = {"interval": "1m0s", "url": "https://git.example.com/x", "ref": {"branch": "main"}}
    cluster.write(
        custom(SOURCE_GROUP, "GitRepository", "apps", spec),
        status={
            "artifact": cluster.artifact,
            "conditions": cluster.ready("True", "stored artifact"),
            "observedGeneration": 1,
        },
    )

    result = penstock(
        *("create", "source", "git", "apps", "--url=https://git.example.com/x"),
        *("--branch=main", "-n", cluster.namespace),
    )

    # What is written is what was there, so that the status is of the present generation.
    assert result.code == 0
    assert "waiting for GitRepository reconciliation" in result.err


def test_credentials_become_a_secret_that_the_source_names(cluster: Any, penstock: Any) -> None:
    result = penstock(*_HELM, "-n", cluster.namespace, "--username=me", "--password=hush")

    assert result.code == 0
    assert cluster.read("HelmRepository", "charts")["spec"]["secretRef"] == {"name": "helm-charts"}
    data = cluster.read("Secret", "helm-charts")["data"]
    assert {key: base64.b64decode(value) for key, value in data.items()} == {
        "username": b"me",
        "password": b"hush",
    }


def test_a_namespace_that_does_not_exist_is_named(cluster: Any, penstock: Any) -> None:
    del cluster

    result = penstock(*_HELM, "-n", "nowhere")

    assert result.code == 1
    assert 'namespace "nowhere" does not exist' in result.err


def test_export_prints_what_a_person_writes(cluster: Any, penstock: Any) -> None:
    cluster.kustomization("apps", conditions=cluster.ready("True", "applied"))

    result = penstock("export", "ks", "apps", "-n", cluster.namespace)

    assert result.code == 0
    assert yaml.safe_load(result.out) == {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": cluster.namespace},
        "spec": cluster.read("Kustomization", "apps")["spec"],
    }


def test_export_of_all_tells_that_there_are_none(namespace: str, penstock: Any) -> None:
    result = penstock("export", "source", "git", "--all", "-n", namespace)

    assert (result.code, result.out) == (0, "")
    assert "no GitRepository objects found" in result.err


def test_delete_asks_where_nobody_can_answer(cluster: Any, penstock: Any) -> None:
    cluster.git_repository("apps")

    refused = penstock("delete", "source", "git", "apps", "-n", cluster.namespace)
    done = penstock("delete", "source", "git", "apps", "-n", cluster.namespace, "--silent")
    gone = penstock("delete", "source", "git", "apps", "-n", cluster.namespace, "--silent")

    assert (refused.code, done.code, gone.code) == (1, 0, 1)
    assert "use --silent" in refused.err
    assert "gitrepository deleted" in done.err
    assert "not found" in gone.err


@pytest.mark.parametrize("groups", [(), ("--as-group=system:masters",)])
def test_as_acts_as_another_user(cluster: Any, penstock: Any, groups: tuple[str, ...]) -> None:
    result = penstock("get", "all", "-n", cluster.namespace, "--as=alice", *groups)

    assert result.code == (0 if groups else 1)
    assert ('User "alice" cannot list' in result.err) is not bool(groups)


def test_a_secret_is_replaced_as_a_whole(cluster: Any, penstock: Any) -> None:
    words = ("create", "secret", "proxy", "proxy", "--address=http://proxy", "-n")

    first = penstock(*words, cluster.namespace, "--username=me", "--password=hush")
    second = penstock(*words, cluster.namespace)

    assert (first.code, second.code) == (0, 0)
    assert cluster.read("Secret", "proxy")["data"] == {
        "address": base64.b64encode(b"http://proxy").decode()
    }


def test_a_tenant_can_get_another_role(cluster: Any, penstock: Any) -> None:
    words = ("create", "tenant", "dev", f"--with-namespace={cluster.namespace}")

    first = penstock(*words)
    second = penstock(*words, "--cluster-role=view")

    assert (first.code, second.code) == (0, 0)
    binding = cluster.administrator.send(
        "GET",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{cluster.namespace}"
        "/rolebindings/dev-reconciler",
    )
    assert binding["roleRef"]["name"] == "view"
    labels = cluster.administrator.send("GET", f"/api/v1/namespaces/{cluster.namespace}")
    assert labels["metadata"]["labels"] == {
        "kubernetes.io/metadata.name": cluster.namespace,
        "toolkit.fluxcd.io/tenant": "dev",
    }


def test_flux_spells_generators_in_two_words(namespace: str, penstock: Any) -> None:
    result = penstock("export", "artifact", "generator", "--all", "-n", namespace)

    assert "no ArtifactGenerator objects found" in result.err
