"""During a rolling update, what API servers ask stays until the other version has ended."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import pytest

from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from toolkit.kube.client import Client
from webhooks import arming
from webhooks.configuration import CONFIGURATION, Target, full_name
from webhooks.joint import SPECS
from webhooks.plugin import Row
from webhooks.plugins import PLUGINS

OWN = "webhook-6c8d-aaaaa"
SIBLING = "webhook-6c8d-bbbbb"
OTHER = "webhook-5d9f-aaaaa"
REGISTRATIONS = ("admissionregistration.k8s.io", "v1")


class Cluster(FakeApiServer):
    """Has the Service of the gate, and the configurations."""

    def __init__(self, *pods: str, configuration: str = "validatingwebhookconfigurations") -> None:
        super().__init__()
        self.page = 100
        self.kinds |= {
            ("discovery.k8s.io", "v1", "endpointslices"): "EndpointSlice",
            (*REGISTRATIONS, "validatingwebhookconfigurations"): "ValidatingWebhookConfiguration",
            (*REGISTRATIONS, "mutatingwebhookconfigurations"): "MutatingWebhookConfiguration",
        }
        self.endpoints(*pods)
        if configuration:
            webhooks = [{"name": full_name(name)} for name in ("tenancy", SPECS)]
            self.put(configuration, CONFIGURATION, "", webhooks=webhooks)

    def endpoints(self, *pods: str) -> None:
        """Have the Service lead to these Pods, none of which is ready."""
        rows = [
            {"targetRef": {"kind": "Pod", "name": pod}, "conditions": {"ready": False}}
            for pod in pods
        ]
        labels = {"kubernetes.io/service-name": "webhook"}
        self.put("endpointslices", "a", "house", endpoints=rows, metadata={"labels": labels})


def seconds(
    cluster: Cluster,
    *,
    rows: Sequence[Row] = PLUGINS,
    url: str = "",
    meanwhile: Callable[[], Coroutine[None, None, None]] | None = None,
) -> float:
    """Return how long the update is waited for."""

    async def wait(client: Client) -> float:
        began = asyncio.get_running_loop().time()
        await arming.updated(client, rows, Target(namespace="house", url=url), pod=OWN)
        return asyncio.get_running_loop().time() - began

    async def main() -> float:
        async with cluster.running() as client, asyncio.TaskGroup() as group:
            if meanwhile is not None:
                group.create_task(meanwhile())
            return await wait(client)

    return virtualtime.run(main)


@pytest.mark.parametrize("pods", [(), (OWN,), (OWN, SIBLING), (OTHER,)])
def test_without_replicas_of_another_version_beside_this_one_nothing_is_waited_for(
    pods: tuple[str, ...],
) -> None:
    assert seconds(Cluster(*pods)) < 1


@pytest.mark.parametrize(
    "configuration", ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]
)
def test_other_versions_are_waited_for_until_they_have_ended(configuration: str) -> None:
    cluster = Cluster(OWN, OTHER, configuration=configuration)

    async def end() -> None:
        await asyncio.sleep(30)
        cluster.endpoints(OWN, SIBLING)

    assert 30 <= seconds(cluster, meanwhile=end) < 33


def test_first_configuration_does_not_wait() -> None:
    assert seconds(Cluster(OWN, OTHER, configuration="")) < 1


def test_webhook_that_this_version_does_not_answer_is_replaced_at_once() -> None:
    alone = [row for row in PLUGINS if not row.webhook]

    assert seconds(Cluster(OWN, OTHER), rows=alone) < 1


def test_address_without_a_service_does_not_wait() -> None:
    cluster = Cluster(OWN, OTHER)

    assert seconds(cluster, url="https://127.0.0.1:9443") == 0
    assert cluster.requests == []


def test_update_that_does_not_end_is_waited_for_ten_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert 600 <= seconds(Cluster(OWN, OTHER)) < 605
    assert "arming beside replicas of another version" in caplog.text
