"""The manifests of published guides apply as they are, where their version is served."""

from pathlib import Path
from typing import Any

import pytest

SEEDS = Path(__file__).parents[2] / "testdata" / "seeds"


@pytest.fixture(autouse=True)
def _flux_system(run: Any) -> None:
    run("create", "namespace", "flux-system")


def apply(run: Any, name: str) -> Any:
    return run(
        *("apply", "--server-side", "--validate=strict", "--dry-run=server"),
        *("-f", str(SEEDS / f"{name}.yaml")),
    )


@pytest.mark.parametrize(
    "name",
    ["toolkit-kustomization", "guide-gitrepository", "guide-kustomization", "guide-tenant"],
)
def test_a_manifest_of_the_served_version_applies_under_strict_validation(
    run: Any, name: str
) -> None:
    applied = apply(run, name)

    assert applied.returncode == 0, applied.stderr
    assert "serverside-applied" in applied.stdout
    assert "unknown field" not in applied.stderr


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("toolkit-health-checks", ["spec.interval", "spec.prune"]),
        ("guide-dependencies", ["spec.interval", "spec.prune"]),
        ("guide-substitution", ["spec.interval", "spec.prune"]),
    ],
)
def test_a_fragment_is_told_which_fields_it_lacks(run: Any, name: str, missing: list[str]) -> None:
    refused = apply(run, name)

    assert refused.returncode != 0
    assert all(f"{field}: Required value" in refused.stderr for field in missing)


@pytest.mark.parametrize("kind", ["gitrepository", "ocirepository", "bucket", "helmrepository"])
def test_a_manifest_of_an_older_version_applies_under_strict_validation(
    run: Any, kind: str
) -> None:
    applied = apply(run, f"toolkit-{kind}-v1beta2")

    assert applied.returncode == 0, applied.stderr
    assert "serverside-applied" in applied.stdout
