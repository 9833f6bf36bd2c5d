"""``penstock debug``, ``stats`` and ``get -o wide`` against real objects."""

import json
from typing import Any

import pytest

from tests.contract.cli.conftest import custom

_HELM = "helm.toolkit.fluxcd.io"


@pytest.fixture
def objects(cluster: Any) -> Any:
    data = {"region": "eu", "values.yaml": "image: {tag: '1', name: web}\n"}
    cluster.write(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "vars"}, "data": data}
    )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vars"}}
    cluster.write(secret | {"stringData": {"token": "hush", "region": "us"}})
    sources = [{"kind": "ConfigMap", "name": "vars"}, {"kind": "Secret", "name": "vars"}]
    cluster.kustomization(
        "apps",
        spec={"postBuild": {"substitute": {"name": "web"}, "substituteFrom": sources}},
        conditions=cluster.ready("False", "build failed"),
    )
    release = custom(
        _HELM,
        "HelmRelease",
        "apps",
        {
            "interval": "1m",
            "chartRef": {"kind": "OCIRepository", "name": "chart"},
            "valuesFrom": [{"kind": "ConfigMap", "name": "vars"}],
            "values": {"image": {"tag": "2"}},
        },
    )
    cluster.write(release | {"apiVersion": f"{_HELM}/v2"})
    return cluster


def test_variables_are_those_that_a_build_has(objects: Any, penstock: Any) -> None:
    result = penstock("debug", "ks", "apps", "--show-vars", "-n", objects.namespace)

    assert result.code == 0
    assert {"name=web", "region=us", "token=hush"} <= set(result.out.splitlines())


def test_a_kustomization_without_variables_is_told(objects: Any, penstock: Any) -> None:
    objects.kustomization("plain")

    result = penstock("debug", "ks", "plain", "--show-vars", "-n", objects.namespace)

    assert (result.code, result.out) == (1, "")
    assert "has no variables: it has no spec.postBuild" in result.err


def test_values_are_those_that_a_release_has(objects: Any, penstock: Any) -> None:
    result = penstock("debug", "hr", "apps", "--show-values", "-n", objects.namespace)

    assert result.code == 0
    assert result.out == "image:\n  tag: '2'\n  name: web\n"


def test_status_is_printed_as_yaml(objects: Any, penstock: Any) -> None:
    result = penstock("debug", "ks", "apps", "--show-status", "-n", objects.namespace)

    assert result.code == 0
    assert "message: build failed" in result.out


def test_debug_needs_to_know_what_to_show(objects: Any, penstock: Any) -> None:
    result = penstock("debug", "ks", "apps", "-n", objects.namespace)

    assert result.code == 1
    assert "--show-vars" in result.err


def test_stats_count_what_is_there(objects: Any, penstock: Any) -> None:
    table = penstock("stats", "-n", objects.namespace)
    found = penstock("stats", "-n", objects.namespace, "-o", "json")

    lines = [line.split() for line in table.out.splitlines()]
    assert lines[0] == ["RECONCILERS", "RUNNING", "FAILING", "SUSPENDED", "STORAGE"]
    assert ["Kustomization", "1", "1", "0", "-"] in lines
    assert ["HelmRelease", "1", "0", "0", "-"] in lines
    assert {"kind", "running", "failing", "suspended", "storage"} == json.loads(found.out)[0].keys()


def test_wide_tells_the_source(objects: Any, penstock: Any) -> None:
    result = penstock("get", "ks", "-n", objects.namespace, "-o", "wide")

    header, row = result.out.splitlines()
    assert header.split()[-2:] == ["AGE", "SOURCE"]
    assert row.endswith(f"GitRepository/{objects.namespace}/apps")


@pytest.mark.parametrize("words", [("ks",), ("all",), ("ks", "apps"), ("ks", "-o", "json")])
def test_a_missing_namespace_is_an_error(penstock: Any, words: tuple[str, ...]) -> None:
    result = penstock("get", *words, "-n", "nowhere")

    assert result.code == 1
    assert 'namespace "nowhere" does not exist' in result.err
    assert result.out == ""


def test_events_can_be_read_by_programs(objects: Any, penstock: Any) -> None:
    result = penstock("events", "-n", objects.namespace, "-o", "json")

    assert json.loads(result.out)["kind"] == "List"
