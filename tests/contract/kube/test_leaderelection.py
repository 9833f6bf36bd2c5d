"""Leader election on real Leases, with times that a test can wait for."""

import asyncio
import json

from controlplane.plane import ControlPlane
from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.leaderelection import LEASE, Elector, Timing


class Candidate:
    """A replica that notes whether it leads."""

    def __init__(self, client: Client, namespace: str, identity: str) -> None:
        # A machine that stands still for seconds must not cost the lease.
        timing = Timing(lease_duration=8, renew_deadline=6, retry_period=0.3)
        elector = Elector(
            client, namespace=namespace, name="lease", identity=identity, timing=timing
        )
        self.leading = False
        self.task = asyncio.create_task(elector.run(self.work))

    async def work(self) -> None:
        self.leading = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def renewals(client: Client, namespace: str, count: int) -> None:
    """Wait until the leader has renewed its lease so often."""
    seen: set[str] = set()

    async def renewed() -> bool:
        lease = await client.get(LEASE, "lease", namespace)
        seen.add(lease["spec"]["renewTime"])
        return len(seen) > count

    await until(renewed)


async def test_one_leads_the_other_follows_and_takes_over(
    client: Client, control_plane: ControlPlane, namespace: str
) -> None:
    one = Candidate(client, namespace, "one")
    await until(lambda: one.leading)
    two = Candidate(client, namespace, "two")
    await renewals(client, namespace, 5)
    alone = one.leading and not two.leading

    await one.end()
    await until(lambda: two.leading)
    arguments = ("get", "lease", "lease", f"--namespace={namespace}", "-o", "json")
    spec = json.loads(await asyncio.to_thread(control_plane.kubectl, *arguments))["spec"]
    await two.end()

    assert alone
    assert spec["holderIdentity"] == "two"
    assert spec["leaseTransitions"] == 1


async def test_a_leader_that_died_is_followed_when_its_lease_runs_out(
    client: Client, namespace: str
) -> None:
    await client.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "lease", "namespace": namespace},
            "spec": {
                "holderIdentity": "dead",
                "leaseDurationSeconds": 2,
                "acquireTime": "2026-01-01T00:00:00.000000Z",
                "renewTime": "2026-01-01T00:00:00.000000Z",
            },
        }
    )
    began = asyncio.get_running_loop().time()
    two = Candidate(client, namespace, "two")

    await until(lambda: two.leading)
    waited = asyncio.get_running_loop().time() - began
    await two.end()

    # However slow the machine is: it has watched the lease for as long as that lasts.
    assert waited >= 2
