"""What is found in a cluster of Flux, and what blocks."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from cli.check.subjects import Subject
from cli.installing.inspection import Finding as Looked
from cli.installing.manifests import Choice
from cli.migrating import findings, preflight
from cli.migrating.findings import Finding
from cli.migrating.releases import Read
from cli.migrating.request import Request
from cli.migrating.survey import Survey, is_part, nothing
from tests.fakes import fluxinstallation
from toolkit.objects import Json

FLUX = "flux-system"
GROUP = "kustomize.toolkit.fluxcd.io"


def survey(**changed: Any) -> Survey:
    """Return Flux as its manifests have it, with nothing that it reconciles."""
    parts = tuple(fluxinstallation.manifests())
    found = replace(
        nothing(FLUX),
        deployments=tuple(each for each in parts if each["kind"] == "Deployment"),
        parts=parts,
        definitions=tuple(
            {**each, "status": {"storedVersions": [each["spec"]["versions"][0]["name"]]}}
            for each in fluxinstallation.definitions()
        ),
        bindings=tuple(each for each in parts if each["kind"] == "ClusterRoleBinding"),
        suitable=(Looked(check="permissions", ok=True, message="enough to install"),),
    )
    return replace(found, **changed)


def find(
    found: Survey, *, namespace: str = "penstock-system", grants: bool = False
) -> list[Finding]:
    return preflight.find(Request(survey=found, choice=Choice(namespace=namespace), grants=grants))


def of(found: list[Finding], check: str) -> list[Finding]:
    return [each for each in found if each.check == check]


def deployment(name: str, **changed: Any) -> Json:
    """Return a Deployment of Flux, with labels, arguments and the like that somebody added."""
    (made,) = (
        each
        for each in fluxinstallation.manifests()
        if each["kind"] == "Deployment" and each["metadata"]["name"] == name
    )
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["args"] += changed.get("args", [])
    container["env"] += changed.get("env", [])
    made["metadata"]["labels"] |= changed.get("labels", {})
    return made


def kustomization(**spec: Any) -> Subject:
    return Subject(
        obj={
            "apiVersion": f"{GROUP}/v1",
            "kind": "Kustomization",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "interval": "10m",
                "prune": True,
                "sourceRef": {"kind": "GitRepository", "name": "app"},
                **spec,
            },
        }
    )


ELSEWHERE = {"kind": "GitRepository", "name": "app", "namespace": "platform"}


def test_flux_as_it_is_shipped_does_not_block() -> None:
    found = find(survey())

    assert not findings.blocking(found)
    assert not of(found, "flags")
    assert not of(found, "pods")
    (binding,) = of(found, "bindings")
    assert "administrators of the cluster" in binding.message


def test_what_becomes_of_each_controller_is_told() -> None:
    messages = {each.object: each.message for each in of(find(survey()), "controllers")}

    assert (
        "v1.9.4, 1 replicas, reconciles Kustomization; is stopped"
        in (messages["Deployment/flux-system/kustomize-controller"])
    )


@pytest.mark.parametrize(
    ("argument", "result", "remedy"),
    [
        ("--no-cross-namespace-refs=true", "warning", "lockdown"),
        ("--default-service-account=default", "warning", "lockdown"),
        ("--watch-label-selector=sharding.fluxcd.io/key=one", "warning", "sharding"),
        ("--watch-label-selector=team=a", "warning", "reconcile all objects without it"),
        ("--watch-all-namespaces=false", "warning", "Deployment of Penstock"),
        ("--no-remote-bases=true", "info", "nothing"),
        ("--requeue-dependency=5s", "info", "nothing"),
        ("--of-the-future=1", "warning", "Penstock has no such flag"),
    ],
)
def test_a_flag_that_changes_something_is_told_with_what_does_the_same(
    argument: str, result: str, remedy: str
) -> None:
    changed = deployment("kustomize-controller", args=[argument])

    (found,) = of(find(survey(deployments=(changed,))), "flags")

    assert found.result == result
    assert argument.split("=", maxsplit=1)[0] in found.message
    assert remedy in found.remedy


def test_what_pods_were_given_besides_is_told() -> None:
    changed = deployment("source-controller", env=[{"name": "HTTPS_PROXY", "value": "s3cret"}])

    (found,) = of(find(survey(deployments=(changed,))), "pods")

    assert "HTTPS_PROXY" in found.message
    assert "s3cret" not in json.dumps(findings.document([found], []))


def test_who_signs_in_at_a_cloud_is_told() -> None:
    note = "eks.amazonaws.com/role-arn"
    parts = [each for each in fluxinstallation.manifests() if each["kind"] == "ServiceAccount"]
    parts[0]["metadata"]["annotations"] = {note: "arn:aws:iam::1:role/x"}

    (found,) = of(find(survey(parts=tuple(parts))), "identities")

    assert note in found.message


def test_who_would_start_flux_again_is_told() -> None:
    owner = {f"{GROUP}/name": "flux-system", f"{GROUP}/namespace": FLUX}
    git = deployment("source-controller", labels=owner)
    helm = deployment("helm-controller", labels={"helm.toolkit.fluxcd.io/name": "flux"})
    operator = deployment("kustomize-controller", labels={"fluxcd.controlplane.io/name": "flux"})

    found = of(find(survey(parts=(git, helm, operator))), "keepers")

    assert [(each.result, each.object) for each in found] == [
        ("blocking", "Deployment/flux-system/helm-controller"),
        ("blocking", "Deployment/flux-system/kustomize-controller"),
        ("warning", "Kustomization/flux-system/flux-system"),
    ]


def test_an_object_that_no_controller_could_read_blocks() -> None:
    (found,) = of(find(survey(subjects=(kustomization(prune="yes"),))), "validation")

    assert found.result == "blocking"
    assert "spec.prune" in found.message


def test_a_version_that_is_stored_and_not_served_blocks() -> None:
    first = fluxinstallation.definitions()[0] | {"status": {"storedVersions": ["v1alpha1", "v1"]}}

    (found,) = of(find(survey(definitions=(first,))), "versions")

    assert found.result == "blocking"
    assert "v1alpha1" in found.message
    assert "penstock migrate" in found.remedy


@pytest.mark.parametrize(("grants", "result"), [(False, "blocking"), (True, "warning")])
def test_a_reference_without_a_grant_blocks_unless_it_is_to_be_granted(
    *, grants: bool, result: str
) -> None:
    some = (kustomization(sourceRef=ELSEWHERE),)

    (found,) = of(find(survey(subjects=some), grants=grants), "references")

    assert found.result == result
    assert "platform/app" in found.message


def test_sources_of_flux_s_namespace_are_shared_from_the_beginning() -> None:
    some = (kustomization(sourceRef={**ELSEWHERE, "namespace": FLUX}),)

    assert not of(find(survey(subjects=some)), "references")
    assert of(find(survey(subjects=some, knows_grants=True)), "references")


def test_what_could_not_be_told_apart_later_is_told_before() -> None:
    failing = kustomization()
    failing.obj["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}

    found = find(survey(subjects=(kustomization(suspend=True), failing)))

    assert [each.result for each in of(found, "suspended")] == ["info"]
    assert [each.result for each in of(found, "ready")] == ["warning"]


def test_kinds_that_penstock_lacks_are_counted() -> None:
    (found,) = of(find(survey(others=Counter({"Terraform": 3}))), "kinds")

    assert "3 objects" in found.message


def test_secrets_and_rules_of_the_network_are_told() -> None:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    mine: Json = {**policy, "metadata": {"name": "proxy", "namespace": FLUX}}
    some = (kustomization(decryption={"provider": "sops", "secretRef": {"name": "keys"}}),)

    found = find(survey(policies=(mine,), subjects=some))

    assert [each.object for each in of(found, "networks")] == ["NetworkPolicy/flux-system/proxy"]
    assert "decryption.secretRef" in of(found, "secrets")[0].message


def test_the_namespace_of_flux_is_refused() -> None:
    (found,) = of(find(survey(), namespace=FLUX), "namespace")

    assert found.result == "blocking"


def test_a_cluster_that_takes_no_installation_blocks() -> None:
    old = Looked(check="Kubernetes version", ok=False, message="v1.20", remedy="upgrade")

    (found,) = of(find(survey(suitable=(old,))), "cluster")

    assert found.result == "blocking"


def test_what_is_ours_is_no_part_of_flux() -> None:
    labels = {"app.kubernetes.io/part-of": "flux", "app.kubernetes.io/instance": "penstock-system"}

    assert is_part(deployment("source-controller"))
    assert not is_part({"metadata": {"labels": labels}})


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    row = Finding(result="info", check="a", object="b\x1b[2J", message="c", remedy="d")

    assert "\x1b" not in findings.shown([row])


def test_charts_with_schemas_on_other_hosts_are_named() -> None:
    release = "HelmRelease/shop/web"
    read = Read(told={release: ("values.schema.json of chart 'web' refers to 'https://a'",)})

    (found,) = of(find(survey(schemas=read)), "schemas")

    assert (found.result, found.object) == ("warning", release)
    assert "refers to 'https://a'" in found.message


def test_records_that_cannot_be_read_are_named() -> None:
    read = Read(unread=("HelmRelease/shop/a", "HelmRelease/shop/b"))

    (found,) = of(find(survey(schemas=read)), "schemas")

    assert (found.result, found.object) == ("info", "HelmRelease/shop/a (and 1 more)")
