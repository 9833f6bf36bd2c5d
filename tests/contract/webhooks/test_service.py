"""A real API server takes the manifests of the gate, and they say what the process expects."""

from pathlib import Path

import yaml

from controlplane.plane import ControlPlane
from tests.tools.installation import built, strictly_applied
from webhooks import configuration

DEPLOY = Path(__file__).parents[3] / "deploy" / "base" / "webhooks"


def test_the_manifests_apply_under_strict_validation(
    control_plane: ControlPlane, namespace: str
) -> None:
    applied = strictly_applied(control_plane, DEPLOY, namespace)

    for wanted in ("deployment.apps/webhook", "service/webhook", "poddisruptionbudget"):
        assert wanted in applied
    assert "webhookconfiguration" not in applied


def test_the_api_server_takes_what_the_plugins_say(control_plane: ControlPlane) -> None:
    applied = control_plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server"),
        *("--validate=strict", "-f", str(DEPLOY / "configurations.yaml")),
    )

    wanted = yaml.safe_load_all((DEPLOY / "configurations.yaml").read_text())
    assert len(applied.splitlines()) == len([each for each in wanted if each])


def test_what_the_manifests_say_is_what_the_process_expects(control_plane: ControlPlane) -> None:
    documents = {each["kind"]: each for each in built(control_plane, DEPLOY)}
    template = documents["Deployment"]["spec"]["template"]
    service = documents["Service"]

    assert service["metadata"]["name"] == configuration.NAME
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["port"] == 443
    assert template["spec"]["serviceAccountName"] == documents["ServiceAccount"]["metadata"]["name"]
    assert documents["ClusterRole"]["metadata"]["name"] == configuration.CLUSTER_ROLE
