"""``penstock get`` shows what is there."""

import json
from typing import Any

import pytest

_LISTS = (
    "get ks",
    "get ks -o json",
    "get ks --status-selector ready=false",
    "get alerts",
    "get sources git",
    "get sources all",
    "get all",
    "export ks --all",
    "events",
    "secrets",
)


@pytest.fixture
def objects(cluster: Any) -> Any:
    cluster.git_repository(
        "apps",
        artifact=cluster.artifact,
        conditions=cluster.ready("True", f"stored artifact for revision '{cluster.revision}'"),
        observedGeneration=1,
    )
    cluster.kustomization(
        "apps",
        conditions=cluster.ready("False", "kustomize build failed", reason="BuildFailed"),
        observedGeneration=1,
    )
    cluster.kustomization("new", spec={"suspend": True})
    return cluster


def test_kustomizations_are_a_table_of_flux_columns(objects: Any, penstock: Any) -> None:
    result = penstock("get", "ks", "-n", objects.namespace)

    header, *rows = [line.split() for line in result.out.splitlines()]
    assert header == ["NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE"]
    assert rows[0] == ["apps", "False", "False", "kustomize", "build", "failed"]
    assert rows[1] == ["new", "True", "False", "waiting", "to", "be", "reconciled"]
    assert result.code == 0


def test_revisions_are_short(objects: Any, penstock: Any) -> None:
    result = penstock("get", "sources", "git", "-n", objects.namespace, "--no-header")

    assert result.out.split()[:4] == ["apps", "main@sha1:01234567", "False", "True"]


def test_all_kinds_carry_their_kind_in_the_name(objects: Any, penstock: Any) -> None:
    result = penstock("get", "all", "-n", objects.namespace, "--no-header")

    names = [line.split()[0] for line in result.out.splitlines() if line]
    assert names == ["gitrepository/apps", "kustomization/apps", "kustomization/new"]


def test_all_namespaces_add_their_column(objects: Any, penstock: Any) -> None:
    result = penstock("get", "ks", "-A")

    assert result.out.split()[:2] == ["NAMESPACE", "NAME"]
    assert objects.namespace in result.out


def test_status_selector_leaves_the_others_out(objects: Any, penstock: Any) -> None:
    result = penstock("get", "all", "-n", objects.namespace, "--status-selector", "ready=true")

    assert "gitrepository/apps" in result.out
    assert "kustomization/" not in result.out


def test_one_object_can_be_had_as_json(objects: Any, penstock: Any) -> None:
    result = penstock("get", "ks", "apps", "-n", objects.namespace, "-o", "json")

    printed = json.loads(result.out)
    assert printed["kind"] == "Kustomization"
    assert printed["metadata"]["name"] == "apps"


def test_missing_object_is_an_error_that_names_it(objects: Any, penstock: Any) -> None:
    result = penstock("get", "ks", "nothing", "-n", objects.namespace)

    assert result.code == 1
    assert f"Kustomization object 'nothing' not found in \"{objects.namespace}\"" in result.err
    assert result.out == ""


@pytest.mark.parametrize("words", _LISTS)
def test_an_empty_list_is_no_failure_whatever_is_listed(
    words: str, namespace: str, penstock: Any
) -> None:
    result = penstock(*words.split(), "-n", namespace)

    assert result.code == 0, result.err
    assert "-o" in words.split() or ("found" in result.err or "no events" in result.err)


@pytest.mark.parametrize("words", _LISTS)
def test_a_namespace_that_does_not_exist_is_a_failure(words: str, penstock: Any) -> None:
    result = penstock(*words.split(), "-n", "nowhere-at-all")

    assert result.code == 1
    assert 'namespace "nowhere-at-all" does not exist' in result.err


def test_an_object_that_a_status_leaves_out_is_no_failure_as_for_flux(
    objects: Any, penstock: Any
) -> None:
    listed = penstock("get", "ks", "-n", objects.namespace, "-o", "json")
    name = next(obj["metadata"]["name"] for obj in json.loads(listed.out)["items"])
    words = ("get", "ks", name, "-n", objects.namespace)

    result = penstock(*words, "--status-selector", "stalled=true")

    assert (result.code, result.out) == (0, "")
    assert "no Kustomization objects found" in result.err
