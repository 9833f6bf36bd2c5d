"""Two replicas of each process on a node: whatever happens to one of them, nothing is lost.

The users of ``load`` are at work all the time. The rolling update is that of ``test_upgrade.py``,
whose installation this is. The node is the only one, so a drain is made of what a drain does to
pods: each is evicted, as its disruption budget lets it.

A request that needs a server that was killed may be refused: the API server asks one endpoint, once
(``failurePolicy: Fail``, and the aggregator's proxy), and the dead one is an endpoint until the
kubelet has noticed. Those requests fail visibly; what controllers do by themselves is repeated.
"""

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.node.cluster import (
    PLACE,
    POD,
    REPLICAS,
    Cluster,
    is_leaving,
    is_ready,
    renewed,
    until,
)
from tests.e2e.node.load import Load, load
from tests.tools import realnode
from toolkit.kube.client import Client
from toolkit.kube.errors import (
    ApiError,
    NotFoundError,
    TooManyRequestsError,
    UnreachableError,
)
from toolkit.objects import GroupVersionKind, Json, dig

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
    pytest.mark.asyncio(loop_scope="session"),
]
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
SECRET = GroupVersionKind("", "v1", "Secret")
SLICE = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")
REGISTRATION = GroupVersionKind("apiregistration.k8s.io", "v1", "APIService")
REGISTERED = "v1alpha1.gitops.penstock.dev"
SERVERS = ("webhook", "penstock-apiserver")
CERTIFICATES = ("webhook-certificates", "penstock-apiserver-certificates")
API_SERVER = "kube-apiserver"
REFUSAL = re.compile("failed calling webhook|error trying to reach service|service unavailable")
"""What the API server answers where a server of ours does not: admission, proxy, aggregator."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(real_node: Cluster, upgraded: object) -> AsyncIterator[Client]:  # noqa: ARG001  # it comes first
    async with real_node.client() as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def users(
    real_node: Cluster,
    api: Client,  # noqa: ARG001  # the installation comes first
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Load]:
    async with load(real_node, tmp_path_factory.mktemp("users")) as working:
        yield working


async def test_nobody_notices_an_eviction_of_every_pod(api: Client, users: Load) -> None:
    before = await pods(api)

    for pod in by_turns(before.values()):
        await until(partial(evicted, api, pod))

    await renewed(api, lambda pod: pod["metadata"]["uid"] not in before)
    assert await users.noticed() == []


async def test_nobody_notices_a_rotation_while_all_leading_controllers_are_dead(
    api: Client, users: Load
) -> None:
    """Leases of controllers have to expire; authorities follow each other in the meantime."""
    leading = {k: v for k, v in (await leaders(api)).items() if not is_server(v)}
    before = {name: await authorities(api, name) for name in CERTIFICATES}
    assert len(leading) >= 5

    for pod in leading.values():
        kill(pod)
    for name in CERTIFICATES:
        note = {"metadata": {"annotations": {"certs.penstock.dev/rotate": "1"}}}
        await api.patch(SECRET, name, PLACE, note, strategy="merge")

    for name in CERTIFICATES:
        await until(partial(turned, api, name, before[name]))
    for name, pod in leading.items():
        await until(partial(is_led_by_another, api, name, pod["holder"]))
    assert await users.noticed() == []


async def test_a_kill_of_servers_loses_nothing_and_refuses_until_they_are_back(
    api: Client, users: Load
) -> None:
    restarts = await restarted(api)
    serving = [pod for pod in (await leaders(api)).values() if is_server(pod)]
    assert {dig(pod, *APP) for pod in serving} == set(SERVERS)

    with users.refusals() as refused:
        for pod in serving:
            kill(pod)
        names = [pod["metadata"]["name"] for pod in serving]
        await until(partial(come_back, api, names, restarts))
        await until(partial(is_served, api))
        await users.steady()

    assert [exc for exc in refused if not REFUSAL.search(str(exc))] == []
    assert await users.noticed() == []


async def test_a_restart_of_the_api_server_loses_nothing(
    real_node: Cluster, api: Client, users: Load
) -> None:
    restarts = await restarted(api)

    with users.refusals() as refused:
        await asyncio.to_thread(real_node.running.stop_component, API_SERVER)
        await asyncio.to_thread(real_node.running.start_component, API_SERVER)
        await until(partial(is_served, api))
        await users.steady()

    assert [exc for exc in refused if not is_of_a_restart(exc)] == []
    assert await users.noticed() == []
    assert await restarted(api) == restarts


APP = ("metadata", "labels", "app")


def is_of_a_restart(exc: Exception) -> bool:
    """Tell whether the API server was away, or had not yet read everything that it needs."""
    return isinstance(exc, UnreachableError) or (
        isinstance(exc, ApiError) and exc.status in {401, 403, 404, 429, 500, 503}
    )


async def pods(api: Client) -> Mapping[str, Json]:
    """Return the pods of the installation that stay, by their uids."""
    found = await api.list(POD, PLACE)
    return {pod["metadata"]["uid"]: pod for pod in found if not is_leaving(pod)}


async def restarted(api: Client) -> dict[str, int]:
    """Return how often the container of each pod was started again."""
    found = await pods(api)
    return {
        pod["metadata"]["name"]: sum(
            row["restartCount"] for row in pod["status"]["containerStatuses"]
        )
        for pod in found.values()
    }


def by_turns(found: Iterable[Json]) -> list[Json]:
    """Return one pod of each app, then the next of each, so that budgets are waited for once."""
    seen: Counter[str] = Counter()
    places = []
    for pod in found:
        app = str(dig(pod, *APP))
        places.append((seen[app], pod))
        seen[app] += 1
    return [pod for _, pod in sorted(places, key=lambda place: place[0])]


async def evicted(api: Client, pod: Json) -> bool:
    """Evict a pod as a drain does, unless its disruption budget is used up."""
    name = pod["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": PLACE},
        "deleteOptions": {"preconditions": {"uid": pod["metadata"]["uid"]}},
    }
    try:
        await api.request("POST", f"/api/v1/namespaces/{PLACE}/pods/{name}/eviction", body=body)
    except TooManyRequestsError:
        return False
    except NotFoundError:  # it has left by itself
        return True
    return True


async def come_back(api: Client, names: list[str], before: dict[str, int]) -> bool:
    """Tell whether pods serve again after their containers were started anew."""
    now, found = await restarted(api), (await pods(api)).values()
    ready = {pod["metadata"]["name"] for pod in found if is_ready(pod)}
    return all(name in ready and now[name] > before[name] for name in names)


async def is_served(api: Client) -> bool:
    """Tell whether all servers are endpoints of their Services, and the aggregator knows it."""
    try:
        slices = await api.list(SLICE, PLACE)
        registration = await api.get(REGISTRATION, REGISTERED)
    except ApiError:  # the API server starts
        return False
    ready: Counter[str] = Counter()
    for each in slices:
        service = each["metadata"]["labels"]["kubernetes.io/service-name"]
        ready[service] += sum(bool(row["conditions"]["ready"]) for row in each["endpoints"] or ())
    rows = dig(registration, "status", "conditions", default=())
    available = {row["type"]: row["status"] for row in rows}.get("Available") == "True"
    return available and all(ready[name] == REPLICAS for name in SERVERS)


def is_server(pod: Json) -> bool:
    return dig(pod, *APP) in SERVERS


async def leaders(api: Client) -> dict[str, Json]:
    """Return the pod that holds each Lease of the installation."""
    by_name = {pod["metadata"]["name"]: pod for pod in (await pods(api)).values()}
    found = {}
    for lease in await api.list(LEASE, PLACE):
        holder = str(dig(lease, "spec", "holderIdentity", default=""))
        pod = by_name.get(holder.partition("_")[0])
        if pod is not None:
            found[lease["metadata"]["name"]] = pod | {"holder": holder}
    return found


async def is_led_by_another(api: Client, name: str, holder: str) -> bool:
    """Tell whether another process, which is there, holds a Lease."""
    pod = (await leaders(api)).get(name)
    return pod is not None and pod["holder"] != holder


def kill(pod: Json) -> None:
    """Kill what runs in a pod, as a kernel does that is out of memory."""
    uid = pod["metadata"]["uid"]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            inside = uid in (process / "cgroup").read_text()
            program = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if inside and program.startswith(b"python\0"):
            os.kill(int(process.name), signal.SIGKILL)


async def authorities(api: Client, name: str) -> dict[str, str]:
    """Return the certificates of the authorities that a Secret holds."""
    data = (await api.get(SECRET, name, PLACE))["data"]
    return {key: value for key, value in data.items() if key.endswith("ca.crt")}


async def turned(api: Client, name: str, before: dict[str, str]) -> bool:
    """Tell whether there is one authority again, and it is another one."""
    now = await authorities(api, name)
    return now.keys() == {"ca.crt"} and now != before
