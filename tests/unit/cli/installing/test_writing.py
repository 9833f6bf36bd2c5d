"""What may be installed beside, and over what."""

import pytest

from cli.errors import UsageError
from cli.installing import writing
from cli.installing.manifests import Choice
from toolkit.objects import Json, ObjectKey

HERE = ObjectKey("flux-system", "flux-system")
CHOICE = Choice(namespace="flux-system")
OURS = {"app.kubernetes.io/instance": "penstock-system"}
FLUX = {"app.kubernetes.io/instance": "flux-system"}
"""The label that Flux's own manifests have."""


def deployment(labels: dict[str, str], *, by: ObjectKey | None = None, replicas: int = 1) -> Json:
    group = "kustomize.toolkit.fluxcd.io"
    applied = {f"{group}/name": by.name, f"{group}/namespace": by.namespace} if by else {}
    return {
        "metadata": {
            "name": "source-controller",
            "namespace": "flux-system",
            "labels": {"app.kubernetes.io/part-of": "flux", **labels, **applied},
        },
        "spec": {"replicas": replicas},
    }


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ([], False),
        ([deployment(OURS)], False),
        ([deployment(OURS, by=HERE)], True),
        # Scaled down, Flux does not apply what its repository holds.
        ([deployment(FLUX, by=HERE, replicas=0)], False),
    ],
)
def test_a_keeper_is_told_where_it_applies_penstock(found: list[Json], *, kept: bool) -> None:
    assert writing.judge(found, CHOICE, HERE) is kept


@pytest.mark.parametrize(
    ("found", "choice", "message"),
    [
        (deployment(FLUX), CHOICE, "of Flux reconciles the same objects"),
        (deployment({}), Choice(), "of Flux reconciles the same objects"),
        (deployment(FLUX, by=HERE), CHOICE, "of Flux reconciles the same objects"),
        (
            deployment(OURS, by=ObjectKey("flux-system", "platform")),
            CHOICE,
            "is applied by Kustomization flux-system/platform",
        ),
        (deployment(OURS), Choice(namespace="elsewhere"), "is installed in namespace flux-system"),
    ],
)
def test_what_others_reconcile_is_refused(found: Json, choice: Choice, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        writing.judge([found], choice, HERE)


def test_without_a_keeper_nothing_that_git_applies_is_overwritten() -> None:
    with pytest.raises(UsageError, match="which would undo this"):
        writing.judge([deployment(OURS, by=HERE)], CHOICE)


def test_beside_flux_that_was_stopped_an_installation_is_changed() -> None:
    stopped = deployment(FLUX, by=HERE, replicas=0)

    assert not writing.judge([stopped], Choice(namespace="penstock-system"))
