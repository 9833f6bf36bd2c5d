"""Verbs for kinds that have no ``spec.suspend``, or that nobody reconciles."""

from typing import Any


def test_a_generator_is_suspended_by_the_annotation_that_its_controller_heeds(
    cluster: Any, penstock: Any
) -> None:
    switch = "source.extensions.fluxcd.io/reconcile"
    sources = [{"alias": "fleet", "kind": "GitRepository", "name": "fleet"}]
    copies = [{"from": "@fleet/", "to": "@artifact/"}]
    cluster.write(
        {
            "apiVersion": "source.extensions.fluxcd.io/v1beta1",
            "kind": "ArtifactGenerator",
            "metadata": {"name": "web", "namespace": cluster.namespace},
            "spec": {"sources": sources, "artifacts": [{"name": "web", "copy": copies}]},
        }
    )
    words = ("source", "artifactgenerator", "web", "-n", cluster.namespace)

    suspended = penstock("suspend", *words)
    switched_off = cluster.read("artifactgenerator", "web")["metadata"]["annotations"]
    refused = penstock("reconcile", *words)
    resumed = penstock("resume", *words, "--no-wait")

    assert (suspended.code, refused.code, resumed.code) == (0, 1, 0)
    assert switched_off[switch] == "disabled"
    assert "`penstock resume source artifactgenerator web" in refused.err
    left = cluster.read("artifactgenerator", "web")["metadata"].get("annotations", {})
    assert switch not in left


def test_nothing_is_awaited_of_what_nobody_reconciles(cluster: Any, penstock: Any) -> None:
    cluster.write(
        {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "HelmRepository",
            "metadata": {"name": "charts", "namespace": cluster.namespace},
            "spec": {"type": "oci", "url": "oci://registry.example.com/charts"},
        }
    )
    words = ("source", "helm", "charts", "-n", cluster.namespace, "--timeout=1h")

    asked, resumed = penstock("reconcile", *words), penstock("resume", *words)

    assert (asked.code, resumed.code) == (0, 0)
    assert "is not reconciled: controllers read it" in asked.err
