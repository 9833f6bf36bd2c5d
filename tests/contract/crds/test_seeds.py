"""The manifests of published guides apply as they are, where their version is served."""

from http import HTTPStatus
from pathlib import Path

import pytest

from tests.contract.crds.conftest import Kubectl
from tests.tools.administrator import Administrator, RefusedError

SEEDS = Path(__file__).parents[2] / "testdata" / "seeds"


@pytest.fixture(scope="module", autouse=True)
def _namespaces(administrator: Administrator) -> None:
    """Make the namespaces of the guides, unless another test has."""
    for name in ("flux-system", "monitoring"):
        try:
            administrator.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        except RefusedError as exc:
            if exc.status != HTTPStatus.CONFLICT:
                raise


def arguments(name: str) -> tuple[str, ...]:
    return (
        *("apply", "--server-side", "--validate=strict", "--dry-run=server"),
        *("-f", str(SEEDS / f"{name}.yaml")),
    )


@pytest.mark.parametrize(
    "name",
    [
        *("toolkit-kustomization", "guide-gitrepository", "guide-kustomization", "guide-tenant"),
        "guide-helmrelease",
    ],
)
def test_a_manifest_of_the_served_version_applies_under_strict_validation(
    run: Kubectl, name: str
) -> None:
    assert "serverside-applied" in run(*arguments(name))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("toolkit-health-checks", ["spec.interval", "spec.prune"]),
        ("guide-dependencies", ["spec.interval", "spec.prune"]),
        ("guide-substitution", ["spec.interval", "spec.prune"]),
    ],
)
def test_a_fragment_is_told_which_fields_it_lacks(
    refused: Kubectl, name: str, missing: list[str]
) -> None:
    told = refused(*arguments(name))

    assert all(f"{field}: Required value" in told for field in missing)


@pytest.mark.parametrize("kind", ["gitrepository", "ocirepository", "bucket", "helmrepository"])
def test_a_manifest_of_an_older_version_applies_under_strict_validation(
    run: Kubectl, kind: str
) -> None:
    assert "serverside-applied" in run(*arguments(f"toolkit-{kind}-v1beta2"))


@pytest.mark.parametrize("name", ["helmrelease", "helmrelease-git"])
def test_a_release_of_an_older_version_applies_under_strict_validation(
    run: Kubectl, name: str
) -> None:
    assert "serverside-applied" in run(*arguments(f"toolkit-{name}-v2beta1"))
