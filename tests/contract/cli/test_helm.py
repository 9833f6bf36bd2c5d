"""A HelmRelease by command: shown, traced, reconciled and suspended as Flux's does."""

from typing import Any

import pytest

from tests.contract.cli.controller import answer, event, requested, start
from tests.tools.waiting import SECONDS

GROUP = "helm.toolkit.fluxcd.io"
SOURCES = "source.toolkit.fluxcd.io/v1"
SNAPSHOT = {
    "digest": f"sha256:{'1' * 64}",
    "name": "app",
    "version": 1,
    "status": "deployed",
    "chartName": "podinfo",
    "chartVersion": "6.5.0",
    "configDigest": f"sha256:{'2' * 64}",
    "firstDeployed": "2026-01-01T00:00:00Z",
    "lastDeployed": "2026-01-01T00:00:00Z",
}


@pytest.fixture
def release(cluster: Any) -> Any:
    """Write a HelmRelease, the HelmChart that its controller makes, and the HelmRepository."""
    ready = {"conditions": cluster.ready("True", "done"), "observedGeneration": 1}
    made_from = {"kind": "HelmRepository", "name": "charts"}
    chart = {"chart": "podinfo", "version": "6.x", "sourceRef": made_from}
    cluster.write(
        obj(SOURCES, "HelmRepository", "charts", url="https://charts.example.com", interval="1m"),
        status=ready | {"artifact": cluster.artifact},
    )
    cluster.write(
        obj(SOURCES, "HelmChart", f"{cluster.namespace}-app", interval="1m", **chart),
        status=ready | {"artifact": cluster.artifact | {"revision": "6.5.0"}},
    )
    cluster.write(
        obj(f"{GROUP}/v2", "HelmRelease", "app", interval="1m", chart={"spec": chart}),
        status=ready
        | {
            "history": [SNAPSHOT | {"namespace": cluster.namespace}],
            "inventory": {
                "entries": [{"id": f"{cluster.namespace}_conf__ConfigMap", "v": "v1"}],
            },
        },
    )
    return cluster


def obj(api_version: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize("word", ["hr", "helmreleases", "helmrelease"])
def test_releases_are_a_table_of_flux_columns(word: str, release: Any, penstock: Any) -> None:
    result = penstock("get", word, "-n", release.namespace)

    header, row = [line.split() for line in result.out.splitlines()]
    assert header == ["NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE"]
    assert row == ["app", "6.5.0", "False", "True", "done"]


def test_tree_shows_what_was_released(release: Any, penstock: Any) -> None:
    result = penstock("tree", "hr", "app", "-n", release.namespace)

    assert [line.lstrip("└─ ") for line in result.out.splitlines()] == [
        f"HelmRelease/{release.namespace}/app",
        f"ConfigMap/{release.namespace}/conf",
    ]


def test_trace_leads_by_the_chart_to_the_repository(release: Any, penstock: Any) -> None:
    labels = {f"{GROUP}/name": "app", f"{GROUP}/namespace": release.namespace}
    conf = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", "labels": labels}}
    release.write(conf)

    result = penstock("trace", "cm", "conf", "-n", release.namespace)

    blocks = [
        dict(line.split(":", 1) for line in b.splitlines()) for b in result.out.split("---\n")
    ]
    assert "Managed by HelmRelease" in blocks[0]["Status"]
    names = ("HelmRelease", "HelmChart", "HelmRepository")
    assert [b[name].strip() for b, name in zip(blocks[1:], names, strict=True)] == [
        "app",
        f"{release.namespace}-app",
        "charts",
    ]
    assert (blocks[2]["Chart"].strip(), blocks[2]["Version"].strip()) == ("podinfo", "6.x")


def test_events_of_a_release_include_those_of_its_chart(release: Any, penstock: Any) -> None:
    chart = f"{release.namespace}-app"
    release.write(event(release, "HelmRelease", "app", "InstallSucceeded"))
    release.write(event(release, "HelmChart", chart, "ChartPullSucceeded"))
    release.write(event(release, "HelmRepository", "charts", "NewArtifact"))

    result = penstock("events", "--for", "HelmRelease/app", "-n", release.namespace)

    for reason in ("InstallSucceeded", "ChartPullSucceeded", "NewArtifact"):
        assert reason in result.out


def test_sources_are_reconciled_first_and_the_release_is_forced_and_reset(release: Any) -> None:
    chart = f"{release.namespace}-app"
    arguments = ("reconcile", "hr", "app", "--with-source", "--force", "--reset")
    with start(release, *arguments) as command:
        answer(release, "helmrepository", "charts", {})
        answer(release, "helmchart", chart, {})
        moment = requested(release, "helmrelease", "app")
        answer(release, "helmrelease", "app", {})
        _, said = command.communicate(timeout=SECONDS)

    notes = release.read("helmrelease", "app")["metadata"]["annotations"]
    assert command.returncode == 0
    assert said.splitlines()[-1] == "✔ applied revision 6.5.0"
    assert notes["reconcile.fluxcd.io/forceAt"] == moment
    assert notes["reconcile.fluxcd.io/resetAt"] == moment


def test_a_release_is_suspended_and_resumed(release: Any, penstock: Any) -> None:
    penstock("suspend", "hr", "app", "-n", release.namespace)
    suspended = release.read("helmrelease", "app")["spec"]["suspend"]
    penstock("resume", "hr", "app", "--no-wait", "-n", release.namespace)

    assert suspended is True
    assert release.read("helmrelease", "app")["spec"]["suspend"] is False


def test_what_else_a_release_can_be_asked_for_is_no_kustomizations(penstock: Any) -> None:
    result = penstock("reconcile", "ks", "app", "--force")

    assert result.code != 0
    assert "No such option" in result.err
