"""``penstock check repository`` on a fleet: builds by the engine, findings, grants, exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from tests.fakes import fleets

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def check(*arguments: str) -> tuple[int, str, str]:
        code = main(("check", "repository", *arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return check


def findings(run: Run, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    _, out, _ = run(*arguments, "-o", "json")
    return {(each["name"], each["field"]): each for each in json.loads(out)["findings"]}


def test_objects_are_checked_as_they_would_be_applied(run: Run) -> None:
    found = findings(run, str(fleets.REPOSITORY))

    film = found["films", "spec.sourceRef"]
    assert (film["namespace"], film["appliedBy"]) == ("media", "flux-system/apps")
    assert (film["file"], film["line"], film["document"]) == ("apps/media/ks.yaml", 26, 3)
    refused = {name for (name, _), each in found.items() if each["result"] == "refused"}
    assert refused >= {"audio", "books", "films", "music", "till", "often", "misspelt"}
    assert ("till", "spec.dependsOn[0]") in found
    assert not {"web", "secretive", "apps", "flux-system"} & {name for name, _ in found}


def test_grants_are_written_and_then_count(run: Run, tmp_path: Path) -> None:
    fleet = fleets.write(tmp_path)
    file = fleet / "grants.yaml"
    before = findings(run, str(fleet))

    code, out, err = run(str(fleet), "--fix", str(file))
    after = findings(run, str(fleet))
    again, _, refusal = run(str(fleet), "--fix", str(file))

    grants = list(yaml.safe_load_all(file.read_text()))
    assert code == 1, "an interval that nobody can read is not a matter of grants"
    assert "reference-grant" in out
    assert "review" in err
    assert {each["metadata"]["namespace"] for each in grants} == {"infra", "media"}
    assert {each["rule"] for each in before.values()} > {each["rule"] for each in after.values()}
    assert "reference-grant" not in {each["rule"] for each in after.values()}
    assert again == 1
    assert "no ReferenceGrant is missing" in refusal


def test_schemas_on_other_hosts_are_a_warning(run: Run, tmp_path: Path) -> None:
    chart = tmp_path / "charts/app"
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 1.0.0\n")
    (chart / "values.schema.json").write_text('{"$ref": "https://schemas.example/common.json"}')
    here = {"chart": "charts/app", "sourceRef": {"kind": "GitRepository", "name": "fleet"}}
    there = {"chart": "podinfo", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}
    releases = [
        {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"interval": "1h", "chart": {"spec": template}},
        }
        for name, template in (("own", here), ("podinfo", there))
    ]
    (tmp_path / "releases.yaml").write_text(yaml.safe_dump_all(releases))

    code, out, err = run(str(tmp_path))

    assert code == 0
    assert "refers to 'https://schemas.example/common.json'" in out
    assert "HelmRelease/shop/podinfo: the chart is in another repository" in err


def test_a_file_of_grants_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "grants.yaml"
    file.write_text("mine")

    code, _, err = run(str(fleets.REPOSITORY), "--fix", str(file))

    assert code == 2
    assert "name a new file" in err
    assert file.read_text() == "mine"


def test_grants_alone_go_to_a_pipe(run: Run) -> None:
    _, out, _ = run(str(fleets.REPOSITORY), "--fix", "-")

    assert {each["kind"] for each in yaml.safe_load_all(out)} == {"ReferenceGrant"}


def test_a_locked_installation_refuses_what_is_shared_elsewhere(run: Run) -> None:
    found = findings(run, str(fleets.REPOSITORY), "--no-cross-namespace-refs")

    assert found["web", "spec.sourceRef"]["rule"] == "cross-namespace-refs"
    assert found["web", "spec.dependsOn[0]"]["rule"] == "cross-namespace-refs"
    assert "grant" not in found["web", "spec.sourceRef"]


def test_an_installation_that_warns_admits_references_and_still_names_their_grants(
    run: Run, tmp_path: Path
) -> None:
    fleet = fleets.write(tmp_path)

    found = findings(run, str(fleet), "--cross-namespace-refs=warn")
    _, grants, _ = run(str(fleet), "--cross-namespace-refs=warn", "--fix", "-")

    assert found["films", "spec.sourceRef"]["result"] == "warning"
    assert found["films", "spec.sourceRef"]["grant"]
    assert {each["kind"] for each in yaml.safe_load_all(grants)} == {"ReferenceGrant"}


def test_a_repository_without_findings_passes(run: Run, tmp_path: Path) -> None:
    fleet = fleets.write(tmp_path)
    (fleet / "apps/media/ks.yaml").write_text("")
    (fleet / "apps/shop/ks.yaml").write_text("")

    code, out, err = run(str(fleet))

    assert (code, out) == (0, "")
    assert "none of 2 objects would be refused" in err


def test_a_directory_that_is_missing_is_a_failure_and_no_finding(run: Run, tmp_path: Path) -> None:
    code, _, err = run(str(tmp_path / "missing"))

    assert code == 2
    assert "is not a directory" in err


def test_where_a_build_fails_namespaces_are_those_of_the_nearest_kustomization(
    run: Run, tmp_path: Path
) -> None:
    fleet = fleets.write(tmp_path)
    (fleet / "apps/media/secret.sops.yaml").unlink()

    found = findings(run, str(fleet))
    _, _, err = run(str(fleet))

    assert "Kustomization/flux-system/apps cannot be built" in err
    assert found["films", "spec.sourceRef"]["namespace"] == "media"
    assert "appliedBy" not in found["films", "spec.sourceRef"]


def test_kustomizations_that_apply_each_other_are_each_checked(run: Run, tmp_path: Path) -> None:
    fleet = fleets.write(tmp_path)
    root = (fleet / "clusters/prod/root.yaml").read_text()
    (fleet / "clusters/prod/root.yaml").unlink()
    (fleet / "apps/root.yaml").write_text(root.replace("10m", "often"))
    (fleet / "apps/kustomization.yaml").write_text("resources: [media, shop, root.yaml]")

    found = findings(run, str(fleet))

    assert found["films", "spec.sourceRef"]["appliedBy"] == "flux-system/apps"
    assert [place for place in found if place[0] == "apps"]


def test_files_that_cannot_be_read_and_kinds_of_others_are_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "chart.yaml").write_text("# helm.toolkit.fluxcd.io/\n{{ if }}")
    (tmp_path / "bomb.yaml").write_text("# helm.toolkit.fluxcd.io/\n" + "[" * 100_000)
    (tmp_path / "other.yaml").write_text(
        "apiVersion: helm.toolkit.fluxcd.io/v1\nkind: HelmTest\nmetadata: {name: a}\n"
    )
    (tmp_path / "link.yaml").symlink_to("/etc/passwd")

    code, _, err = run(str(tmp_path))

    assert code == 0
    assert "2 files cannot be read" in err
    assert "1 HelmTest" in err


_KUSTOMIZATION = """
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: {name}, namespace: flux-system}}
spec:
  interval: 10m
  prune: true
  path: {path}
  sourceRef: {{kind: {kind}, name: {source}}}
"""
_RELEASE = """
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: web}
spec:
  interval: 10m
  chart: {spec: {chart: web, version: "1.0", sourceRef: {kind: HelmRepository, name: web}}}
"""
_PATCH = """
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: web}
spec: {chart: {spec: {version: ">=1.0.0-alpha"}}, values: {replicas: 3}}
"""


def _fleet(root: Path, files: dict[str, str]) -> Path:
    own = {"name": "apps", "path": "./apps/staging", "kind": "GitRepository", "source": "fleet"}
    files = {"clusters/staging/apps.yaml": _KUSTOMIZATION.format(**own), **files}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.mark.parametrize(
    "named",
    [
        "patches: [{path: values.yaml, target: {kind: HelmRelease}}]",
        "patchesStrategicMerge: [values.yaml]",
        "configMapGenerator: [{name: x, files: [values.yaml]}]",
        "configMapGenerator: [{name: x, files: [key=values.yaml]}]",
        "commonAnnotations: {a: b}",  # nothing names the file
    ],
)
def test_a_file_that_is_no_object_is_not_reported(run: Run, tmp_path: Path, named: str) -> None:
    fleet = _fleet(
        tmp_path,
        {
            "apps/base/kustomization.yaml": "resources: [web.yaml]",
            "apps/base/web.yaml": _RELEASE,
            "apps/staging/kustomization.yaml": f"resources: [../base]\n{named}\n",
            "apps/staging/values.yaml": _PATCH,
        },
    )

    code, out, err = run(str(fleet))

    assert (code, out) == (0, ""), err
    assert "none of 2 objects would be refused" in err


def test_a_kustomization_of_another_repository_is_listed_as_not_checked(
    run: Run, tmp_path: Path
) -> None:
    other = {"name": "other", "path": "./deploy", "kind": "OCIRepository", "source": "other"}
    gone = {"name": "gone", "path": "./gone", "kind": "GitRepository", "source": "fleet"}
    fleet = _fleet(
        tmp_path,
        {
            "apps/staging/web.yaml": _RELEASE,
            "clusters/staging/other.yaml": _KUSTOMIZATION.format(**other),
            "clusters/staging/gone.yaml": _KUSTOMIZATION.format(**gone),
        },
    )

    code, _, err = run(str(fleet))
    _, out, _ = run(str(fleet), "-o", "json")

    assert code == 0
    assert "2 Kustomizations apply what is not checked here" in err
    assert "its source, OCIRepository other, is not this repository" in err
    assert "there is no directory gone in this repository" in err
    unchecked = [
        line for line in json.loads(out)["notChecked"] if line.startswith("Kustomization/")
    ]
    assert len(unchecked) == 2


def test_a_build_that_fails_is_a_failure(run: Run, tmp_path: Path) -> None:
    broken = {"apps/staging/kustomization.yaml": "resources: [missing.yaml]"}
    fleet = _fleet(tmp_path, broken)

    code, _, err = run(str(fleet))
    _, out, _ = run(str(fleet), "-o", "json")

    assert code == 1
    assert "not all Kustomizations can be built" in err
    assert "missing.yaml" in json.loads(out)["failedBuilds"][0]


def test_files_that_are_not_in_the_artifact_are_not_checked(run: Run, tmp_path: Path) -> None:
    fleet = _fleet(
        tmp_path,
        {
            ".sourceignore": "/docs\n",
            "apps/staging/web.yaml": _RELEASE,
            "docs/example.yaml": _PATCH,
        },
    )

    code, out, err = run(str(fleet))

    assert (code, out) == (0, ""), err
    assert "none of 2 objects would be refused" in err


def _tenants(root: Path, *names: str) -> Path:
    """Write a repository whose tenants have manifests with the same names, without namespaces."""
    files = {
        "clusters/prod/tenants.yaml": _KUSTOMIZATION.format(
            name="tenants", path="./tenants/prod", kind="GitRepository", source="fleet"
        ),
        "tenants/prod/kustomization.yaml": yaml.safe_dump(
            {"resources": [f"../base/{name}" for name in names], "namePrefix": "prod-"}
        ),
    }
    for name in names:
        own = _KUSTOMIZATION.format(name="sync", path="./", kind="GitRepository", source=name)
        files |= {
            f"tenants/base/{name}/kustomization.yaml": yaml.safe_dump(
                {"namespace": name, "resources": ["sync.yaml"]}
            ),
            f"tenants/base/{name}/sync.yaml": own.replace(", namespace: flux-system", "").replace(
                "10m", "often"
            ),
        }
    return _fleet(root, {"clusters/staging/apps.yaml": "", **files})


def test_manifests_of_one_name_are_each_found_in_their_file(run: Run, tmp_path: Path) -> None:
    fleet = _tenants(tmp_path, "blue", "green", "red")

    code, out, err = run(str(fleet), "-o", "json")

    said = json.loads(out)
    assert code == 1, err
    assert said["checked"] == 4
    assert {(each["namespace"], each["name"], each["file"]) for each in said["findings"]} == {
        (name, "prod-sync", f"tenants/base/{name}/sync.yaml") for name in ("blue", "green", "red")
    }


def test_what_is_not_checked_is_named_as_it_is_applied(run: Run, tmp_path: Path) -> None:
    fleet = _tenants(tmp_path, "blue", "green")

    _, out, _ = run(str(fleet), "-o", "json")

    named = [each.partition(":")[0] for each in json.loads(out)["notChecked"]]
    assert named == ["Kustomization/blue/prod-sync", "Kustomization/green/prod-sync"]


def test_a_kustomization_that_others_complete_is_not_built_as_it_is_written(
    run: Run, tmp_path: Path
) -> None:
    base = _KUSTOMIZATION.format(name="web", path="./broken", kind="GitRepository", source="fleet")
    patch = "- {op: replace, path: /spec/path, value: ./web}"
    fleet = _fleet(
        tmp_path,
        {
            "apps/staging/kustomization.yaml": "resources: [../base]\n"
            f"patches: [{{target: {{kind: Kustomization}}, patch: '{patch}'}}]\n",
            "apps/base/kustomization.yaml": "resources: [web.yaml]",
            "apps/base/web.yaml": base,
            "broken/kustomization.yaml": "resources: [missing.yaml]",
            "web/web.yaml": _RELEASE,
        },
    )

    code, out, err = run(str(fleet), "-o", "json")

    assert (code, json.loads(out)["failedBuilds"]) == (0, []), err


def test_rules_between_fields_are_those_of_the_api_server(run: Run, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        _KUSTOMIZATION.format(name="none", path="./", kind="GitRepository", source="x").partition(
            "  sourceRef"
        )[0]
        + "---"
        + _RELEASE.partition("  chart:")[0]
        + "  install: {strategy: {name: RemediateOnFailure, retryInterval: 5m}}\n"
        + "---"
        + _RELEASE.replace("name: web,", "name: right,", 1)
    )

    code, out, _ = run(str(tmp_path), "-o", "json")

    assert code == 1
    assert {
        (each["name"], each["field"], each["message"]) for each in json.loads(out)["findings"]
    } == {
        (
            "none",
            "spec.sourceRef",
            "sourceRef is required unless sourceRefs has at least one entry",
        ),
        ("web", "spec", "either chart or chartRef must be set"),
        (
            "web",
            "spec.install.strategy",
            ".retryInterval cannot be set when .name is 'RemediateOnFailure'",
        ),
    }
