"""What ``create … --export`` prints: manifests that our definitions take."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import crds
from cli.__main__ import main

Printed = Any
_GIT = ["source", "git", "podinfo", "--url=https://git.example.com/podinfo"]
_OCI = ["source", "oci", "podinfo", "--url=oci://ghcr.io/podinfo"]
_CHART = ["source", "chart", "podinfo", "--source=HelmRepository/podinfo", "--chart=podinfo"]
_KS = ["kustomization", "podinfo", "--source=podinfo"]
_HR = ["hr", "podinfo", "--source=HelmRepository/podinfo.charts", "--chart=podinfo"]


def printed(capsys: pytest.CaptureFixture[str], words: list[str]) -> Printed:
    capsys.readouterr()
    code = main(["create", *words, "--export", "-n", "apps", "--kubeconfig=/nowhere"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return yaml.safe_load(said.out)


@pytest.mark.parametrize(
    ("words", "kind", "spec"),
    [
        (
            [*_GIT, "--branch=main"],
            "GitRepository",
            {
                "url": "https://git.example.com/podinfo",
                "interval": "1m0s",
                "ref": {"branch": "main"},
            },
        ),
        (
            [
                *_GIT,
                "--branch=main",
                "--tag-semver=>=1.0",
                "--secret-ref=auth",
                "--ignore-paths=a,b",
                "--recurse-submodules=true",
                "--fetch-timeout=90s",
                "--proxy-secret-ref=proxy",
                "--sparse-checkout-paths=x,y",
                "--interval=10m",
            ],
            "GitRepository",
            {
                "url": "https://git.example.com/podinfo",
                "interval": "10m0s",
                "ref": {"semver": ">=1.0"},
                "secretRef": {"name": "auth"},
                "proxySecretRef": {"name": "proxy"},
                "ignore": "a\nb",
                "recurseSubmodules": True,
                "sparseCheckout": ["x", "y"],
                "timeout": "1m30s",
            },
        ),
        (
            [*_GIT, "--branch=main", "--commit=0123"],
            "GitRepository",
            {
                "url": "https://git.example.com/podinfo",
                "interval": "1m0s",
                "ref": {"branch": "main", "commit": "0123"},
            },
        ),
        (
            [*_OCI, "--tag=6.1.6", "--cert-ref=certs", "--service-account=puller"],
            "OCIRepository",
            {
                "url": "oci://ghcr.io/podinfo",
                "interval": "1m0s",
                "provider": "generic",
                "ref": {"tag": "6.1.6"},
                "certSecretRef": {"name": "certs"},
                "serviceAccountName": "puller",
            },
        ),
        (
            [
                *_OCI,
                "--digest=sha256:0",
                "--verify-provider=cosign",
                "--verify-subject=^https://x$",
                "--verify-issuer=^https://y$",
            ],
            "OCIRepository",
            {
                "url": "oci://ghcr.io/podinfo",
                "interval": "1m0s",
                "provider": "generic",
                "ref": {"digest": "sha256:0"},
                "verify": {
                    "provider": "cosign",
                    "matchOIDCIdentity": [{"issuer": "^https://y$", "subject": "^https://x$"}],
                },
            },
        ),
        (
            ["source", "helm", "podinfo", "--url=https://charts.example.com"],
            "HelmRepository",
            {"url": "https://charts.example.com", "interval": "1m0s"},
        ),
        (
            ["source", "helm", "podinfo", "--url=oci://ghcr.io/charts", "--oci-provider=aws"],
            "HelmRepository",
            {
                "url": "oci://ghcr.io/charts",
                "interval": "1m0s",
                "type": "oci",
                "provider": "aws",
            },
        ),
        (
            ["source", "bucket", "podinfo", "--bucket-name=b", "--endpoint=minio:9000"],
            "Bucket",
            {
                "bucketName": "b",
                "endpoint": "minio:9000",
                "interval": "1m0s",
                "provider": "generic",
            },
        ),
        (
            [*_CHART, "--chart-version=6.x"],
            "HelmChart",
            {
                "chart": "podinfo",
                "version": "6.x",
                "interval": "1m0s",
                "reconcileStrategy": "ChartVersion",
                "sourceRef": {"kind": "HelmRepository", "name": "podinfo"},
            },
        ),
        (
            _KS,
            "Kustomization",
            {
                "path": "./",
                "prune": False,
                "interval": "1m0s",
                "sourceRef": {"kind": "GitRepository", "name": "podinfo"},
            },
        ),
        (
            [
                "ks",
                "podinfo",
                "--source=ocirepository/podinfo.sources",
                "--path=./deploy",
                "--prune=true",
                "--wait=false",
                "--health-check=Deployment/web.apps",
                "--depends-on=a,other/b",
                "--decryption-provider=sops",
                "--decryption-secret=keys",
                "--kubeconfig-secret-ref=remote",
                "--retry-interval=30s",
            ],
            "Kustomization",
            {
                "path": "./deploy",
                "prune": True,
                "interval": "1m0s",
                "retryInterval": "30s",
                "timeout": "2m0s",
                "dependsOn": [{"name": "a"}, {"name": "b", "namespace": "other"}],
                "sourceRef": {"kind": "OCIRepository", "name": "podinfo", "namespace": "sources"},
                "healthChecks": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": "web",
                        "namespace": "apps",
                    }
                ],
                "decryption": {"provider": "sops", "secretRef": {"name": "keys"}},
                "kubeConfig": {"secretRef": {"name": "remote"}},
            },
        ),
        (
            [
                *_HR,
                "--chart-version=>4",
                "--crds=CreateReplace",
                "--create-target-namespace",
                "--target-namespace=web",
                "--values-from=Secret/x,ConfigMap/y",
            ],
            "HelmRelease",
            {
                "interval": "1m0s",
                "targetNamespace": "web",
                "chart": {
                    "spec": {
                        "chart": "podinfo",
                        "version": ">4",
                        "reconcileStrategy": "ChartVersion",
                        "sourceRef": {
                            "kind": "HelmRepository",
                            "name": "podinfo",
                            "namespace": "charts",
                        },
                    }
                },
                "install": {"createNamespace": True, "crds": "Create"},
                "upgrade": {"crds": "CreateReplace"},
                "valuesFrom": [
                    {"kind": "Secret", "name": "x"},
                    {"kind": "ConfigMap", "name": "y"},
                ],
            },
        ),
        (
            ["helmrelease", "podinfo", "--chart-ref=OCIRepository/podinfo"],
            "HelmRelease",
            {"interval": "1m0s", "chartRef": {"kind": "OCIRepository", "name": "podinfo"}},
        ),
    ],
)
def test_export_prints_what_was_said(
    capsys: pytest.CaptureFixture[str], words: list[str], kind: str, spec: dict[str, Any]
) -> None:
    found = printed(capsys, [*words, "--label=team=web"])

    assert found["metadata"] == {
        "name": "podinfo",
        "namespace": "apps",
        "labels": {"team": "web"},
    }
    assert found["kind"] == kind
    assert found["spec"] == spec
    row = next(each for each in crds.KINDS if each.kind == kind)
    assert found["apiVersion"] == row.api_version
    msgspec.convert(found, row.model)


def test_values_of_later_files_win(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("image: {tag: '1', name: web}\n")
    (tmp_path / "b.yaml").write_text("image: {tag: '2'}\n")

    found = printed(capsys, [*_HR, f"--values={tmp_path}/a.yaml,{tmp_path}/b.yaml"])

    assert found["spec"]["values"] == {"image": {"tag": "2", "name": "web"}}


def test_credentials_are_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["create", *_GIT, "--branch=main", "--username=me", "--password=hush", "--export"]

    assert main(words) == 0

    said = capsys.readouterr()
    assert "hush" not in said.out + said.err
    assert "penstock create secret" in said.err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (_GIT, "--branch, --tag"),
        (["source", "git", "x", "--url=ftp://x", "--branch=main"], "use ssh, http or https"),
        (_OCI, "--tag, --tag-semver or --digest"),
        ([*_OCI, "--tag=1", "--verify-issuer=x"], "need --verify-provider"),
        (
            [*_OCI, "--tag=1", "--verify-provider=cosign", "--verify-issuer=x"],
            "--verify-subject and --verify-issuer are needed together",
        ),
        ([*_KS, "--path=deploy"], "must begin with ./"),
        ([*_KS, "--path=./../up"], "stay in the source"),
        (["ks", "x", "--source=Secret/x"], "with a KIND of OCIRepository"),
        ([*_KS, "--health-check=Pod/x.y"], "with a KIND of HelmRelease"),
        ([*_KS, "--health-check=Deployment/x"], "KIND/NAME.NAMESPACE"),
        ([*_KS, "--decryption-secret=x"], "--decryption-provider"),
        ([*_KS, "--label=x"], "KEY=VALUE"),
        (["hr", "x"], "either --chart and --source, or --chart-ref"),
        (["hr", "x", "--chart=y"], "--chart needs --source"),
        ([*_HR, "--values=/nowhere"], "cannot read /nowhere: No such file"),
        ([*_CHART[:3], "--source=podinfo", "--chart=x"], "KIND/NAME"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_remedy(
    capsys: pytest.CaptureFixture[str], words: list[str], remedy: str
) -> None:
    assert main(["create", *words, "--export"]) == 1

    said = capsys.readouterr()
    assert remedy in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["image", "repository", "podinfo", "--image=registry.local:5000/podinfo"],
        ["source", "oci", "podinfo", "--url=oci://registry.local:5000/podinfo", "--tag=v1"],
        ["source", "bucket", "podinfo", "--bucket-name=x", "--endpoint=minio.local:9000"],
    ],
)
def test_a_server_without_tls_can_be_permitted(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, [*words, "--insecure"])["spec"]["insecure"] is True
    assert "insecure" not in printed(capsys, words)["spec"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["source", "git", "a", "--branch=main", "--url=git@github.com:org/fleet.git"],
            "--url: scheme '' is not supported: write ssh://git@github.com/org/fleet.git",
        ),
        (
            ["source", "git", "a", "--branch=main", "--url=github.com/org/fleet"],
            "--url: scheme '' is not supported: write https://github.com/org/fleet",
        ),
        (
            ["source", "git", "a", "--branch=main", "--url=ssh://git@github.com:org/fleet"],
            "after ssh://, write a slash between host and path, not a colon",
        ),
        (
            ["source", "helm", "a", "--url=charts.example.com"],
            "--url 'charts.example.com': it must be a URL over HTTP or HTTPS, or in a registry",
        ),
        (["source", "oci", "a", "--tag=1", "--url=ghcr.io/x"], "write oci://<host>/<name>"),
        (["kustomization", "Apps_1", "--source=a"], "'Apps_1' is not a name of an object"),
        ([*_HR, "--values=none.yaml"], "--values: cannot read none.yaml: No such file"),
    ],
)
def test_what_the_api_server_would_refuse_is_not_printed(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code = main(["create", *words, "--export", "-n", "apps"])

    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    assert told in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reconcil", "ks", "apps"], "No such command 'reconcil'. Did you mean 'reconcile'?"),
        (["get", "kustomisation"], "Did you mean 'kustomization' or 'kustomizations'?"),
        (["get", "sources", "gitt"], "Did you mean 'git'?"),
        (["frobnicate"], "No such command 'frobnicate'."),
    ],
)
def test_a_mistyped_command_names_similar_ones(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(words) == 1
    assert told in capsys.readouterr().err
