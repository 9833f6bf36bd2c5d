"""The way of a cluster: a Service leads to the replicas, and arming waits until it does."""

import asyncio
import contextlib
from pathlib import Path

import yaml

from certs import injection
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate
from tests.tools.installation import built, strictly_applied
from toolkit.kube.errors import NotFoundError
from toolkit.objects import Json
from webhooks import configuration

DEPLOY = Path(__file__).parents[3] / "deploy" / "base" / "webhooks"


async def registered(gate: Gate) -> Json | None:
    with contextlib.suppress(NotFoundError):
        return await gate.admin.get(injection.VALIDATING, configuration.CONFIGURATION)
    return None


def endpoints(gate: Gate, *, ready: bool) -> Json:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "webhook-1",
            "namespace": gate.namespace,
            "labels": {"kubernetes.io/service-name": "webhook"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": ready}}],
        "ports": [{"name": "https", "port": 9443}],
    }


async def test_nothing_is_armed_before_the_service_leads_to_a_replica(gate: Gate) -> None:
    row, _ = gate.row("gate")
    await gate.admin.apply(endpoints(gate, ready=False), manager="test")
    replica = await gate.start(row, webhook_url="")
    await replica.ready()
    # two looks at the endpoints
    await asyncio.sleep(1.1)
    assert await registered(gate) is None

    await gate.admin.apply(endpoints(gate, ready=True), manager="test")

    async def armed() -> Json | None:
        return await registered(gate)

    found = await gate.until(armed)
    service = found["webhooks"][0]["clientConfig"]["service"]
    assert service["name"] == "webhook"
    assert service["namespace"] == gate.namespace


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
