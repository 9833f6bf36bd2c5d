"""A field that a kind does not have is found, wherever it is, and no other."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.check import fieldnames
from cli.check.subjects import ours
from crds import KINDS
from tests.fakes.specs import RIGHT
from toolkit.objects import Json

SEEDS = Path(__file__).parents[3] / "testdata" / "seeds"
BY_NAME = {kind.kind: kind for kind in KINDS}


def written(kind: str, **spec: Any) -> Json:
    metadata = {"name": "it", "namespace": "apps", "color": "red"}
    return {
        "apiVersion": BY_NAME[kind].api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": {"colour": "red"},
    }


def seeds() -> list[Json]:
    documents = (
        each
        for path in sorted(SEEDS.glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
    )
    return [each for each in documents if ours(each)]


@pytest.mark.parametrize(
    ("kind", "spec", "found"),
    [
        ("Kustomization", {"intervall": "1m"}, ("spec.intervall", "interval")),
        ("Kustomization", {"zz": 1}, ("spec.zz", "")),
        ("GitRepository", {"ref": {"brunch": "main"}}, ("spec.ref.brunch", "branch")),
        ("GitRepository", {"include": [{}, {"repo": {}}]}, ("spec.include[1].repo", "")),
        ("HelmRelease", {"driftDetection": {"mod": "warn"}}, ("spec.driftDetection.mod", "mode")),
        (
            "HelmRelease",
            {"chart": {"version": "1"}},
            ("spec.chart.version", "spec.chart.spec.version"),
        ),
        (
            "HelmRelease",
            {"chart": {"spec": {"values": {}}}},
            ("spec.chart.spec.values", "spec.values"),
        ),
        ("Kustomization", {"substitute": {}}, ("spec.substitute", "spec.postBuild.substitute")),
        ("GitRepository", {"branch": "main"}, ("spec.branch", "spec.ref.branch")),
    ],
)
def test_an_unknown_field_is_found_with_its_path(
    kind: str, spec: Json, found: tuple[str, str]
) -> None:
    assert list(fieldnames.unknown(written(kind, **spec))) == [found]


def test_a_field_beside_the_spec_is_found() -> None:
    obj = {**written("Kustomization"), "specs": {}}

    assert list(fieldnames.unknown(obj)) == [("specs", "spec")]


def test_names_that_a_user_chooses_are_no_fields() -> None:
    variables = written("Kustomization", postBuild={"substitute": {"anything": "x"}})
    values = written("HelmRelease", values={"anything": {"at": ["all"]}})

    assert not list(fieldnames.unknown(variables))
    assert not list(fieldnames.unknown(values))


@pytest.mark.parametrize("kind", RIGHT)
def test_a_right_spec_has_no_unknown_field(kind: str) -> None:
    assert not list(fieldnames.unknown(written(kind, **RIGHT[kind])))


@pytest.mark.parametrize("obj", seeds(), ids=lambda obj: f"{obj['kind']}-{obj['metadata']}")
def test_manifests_that_users_of_flux_have_in_git_have_none(obj: Json) -> None:
    assert not list(fieldnames.unknown(obj))
