"""A kubelet that has nothing but logs: the API server asks it as it asks every kubelet.

It stands for a node of its own, which nothing is scheduled to. Pods that are bound to it have the
logs that a test gives them.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import trustme
from aiohttp import web

from tests.fakes.serving import certified, serving
from tests.tools.administrator import Administrator

NODES = "/api/v1/nodes"


@dataclass
class Kubelet:
    """The node's name, the logs by pod, and what was asked: pod, container, query."""

    node: str
    logs: dict[str, list[str]] = field(default_factory=dict)
    asked: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer ``/containerLogs/<namespace>/<pod>/<container>``."""
        *_, pod, container = request.path.split("/")
        self.asked.append((pod, container, dict(request.query)))
        if pod not in self.logs:
            return web.Response(status=500, text="the log was rotated away")
        return web.Response(text="".join(f"{line}\n" for line in self.logs[pod]))


@contextlib.asynccontextmanager
async def kubelet(administrator: Administrator, name: str) -> AsyncIterator[Kubelet]:
    """Give the kubelet of a node that is there until the end."""
    made = Kubelet(node=name)
    tls = certified(trustme.CA(), "localhost")
    async with serving(made.answer, tls=tls) as port:
        status: dict[str, Any] = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        administrator.send("POST", NODES, {**node, "spec": {"unschedulable": True}})
        try:
            administrator.send(
                "PATCH",
                f"{NODES}/{name}/status",
                {"status": status},
                content="application/merge-patch+json",
            )
            yield made
        finally:
            administrator.send("DELETE", f"{NODES}/{name}")
