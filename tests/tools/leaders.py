"""Who leads among the replicas of a stack, and a lease that nobody has to wait for.

How long a lease lasts is proved in virtual time (``tests/unit/toolkit/kube``), and once on the
clock (``tests/e2e/test_replicas.py``). All other tests end the lease of a leader that they have
killed or frozen, as a leader does that ends in order.
"""

import signal
from dataclasses import dataclass

import aiohttp

from cli.stack.stack import Stack
from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.errors import ConflictError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that leads, and the name under which it holds the lease."""

    component: str
    replica: int
    pid: int
    identity: str


async def find(stack: Stack, api: Client, component: str) -> Leader:
    """Return the replica that leads, once one does and the lease says so."""

    async def look() -> Leader | None:
        # What holds before and after the processes were asked held meanwhile.
        before = await _holder(stack, api, component)
        leading = [n for n in range(stack.options.replicas) if await _leads(stack, component, n)]
        pids = stack.pids()
        if len(leading) != 1 or not before or before != await _holder(stack, api, component):
            return None
        (replica,) = leading
        pid = pids.get(f"{component}-{replica}", 0)
        return Leader(component=component, replica=replica, pid=pid, identity=before)

    found: Leader = await until(look)
    return found


async def kill(stack: Stack, api: Client, leader: Leader) -> None:
    """Kill a leader and depose it. Its process is started again."""
    name = f"{leader.component}-{leader.replica}"
    await stack.kill(leader.component, signal.SIGKILL, replica=leader.replica)
    await until(lambda: stack.pids().get(name) != leader.pid)
    await depose(stack, api, leader)


async def depose(stack: Stack, api: Client, leader: Leader) -> None:
    """End the lease of a leader that is dead or frozen, and so cannot renew it."""
    name, namespace = _lease(leader.component), stack.options.namespace
    while True:
        lease = await api.get(LEASE, name, namespace)
        if dig(lease, "spec", "holderIdentity") != leader.identity:
            return
        change: Json = {
            "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
        }
        try:
            await api.patch(LEASE, name, namespace, change, strategy="merge")
        except ConflictError:
            continue
        return


def _lease(component: str) -> str:
    return f"{component}-controller"


async def _holder(stack: Stack, api: Client, component: str) -> str:
    try:
        lease = await api.get(LEASE, _lease(component), stack.options.namespace)
    except NotFoundError:
        return ""
    return str(dig(lease, "spec", "holderIdentity", default=""))


async def _leads(stack: Stack, component: str, replica: int) -> bool:
    """Tell whether a process says that it leads; one that is frozen or dead says nothing."""
    if f"{component}-{replica}" not in stack.pids():
        return False
    patience = aiohttp.ClientTimeout(total=5)
    wanted = f'leader_election_master_status{{name="{_lease(component)}"}} 1.0'
    try:
        async with (
            aiohttp.ClientSession(timeout=patience) as session,
            session.get(stack.metrics(component, replica=replica)) as response,
        ):
            return wanted in (await response.text()).splitlines()
    except (TimeoutError, aiohttp.ClientError, OSError):
        return False
