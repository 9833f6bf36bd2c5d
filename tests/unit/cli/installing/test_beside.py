"""``penstock up`` beside other controllers of the same kinds."""

import pytest

from cli import errors
from cli.installing import beside
from toolkit.objects import Json

OURS = "penstock-system"
FLUX = "flux-system"


def deployment(name: str, instance: str, *, replicas: int = 1) -> Json:
    labels = {"app.kubernetes.io/part-of": "flux", "app.kubernetes.io/instance": instance}
    metadata = {"name": name, "namespace": instance, "labels": labels}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


@pytest.mark.parametrize(
    ("name", "instance", "gate", "remedy"),
    [
        ("kustomize-controller", OURS, False, "penstock uninstall -n penstock-system"),
        ("image-controller", OURS, False, "penstock uninstall -n penstock-system"),
        ("webhook", OURS, True, "penstock uninstall -n penstock-system"),
        ("helm-controller", FLUX, False, "penstock migrate --from-flux"),
        ("helm-controller-shard1", FLUX, False, "penstock migrate --from-flux"),
    ],
)
def test_up_is_refused_beside_other_controllers(
    name: str, instance: str, *, gate: bool, remedy: str
) -> None:
    with pytest.raises(errors.UsageError, match=remedy):
        beside.require_no_controllers([deployment(name, instance)], gate=gate)


@pytest.mark.parametrize(
    ("found", "gate"),
    [
        ([], True),
        ([deployment("helm-controller", FLUX, replicas=0)], True),
        ([deployment("source-controller", OURS, replicas=0)], True),
        # The gate and the aggregated API reconcile nothing.
        ([deployment("webhook", OURS), deployment("penstock-apiserver", OURS)], False),
    ],
)
def test_up_runs_beside_what_reconciles_nothing(found: list[Json], *, gate: bool) -> None:
    beside.require_no_controllers(found, gate=gate)
