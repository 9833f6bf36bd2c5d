"""What tests ask of the aggregated API in their namespace, by kubectl."""

import asyncio
import json
import time
from collections.abc import Callable

import pytest
import yaml

from tests.e2e.conftest import DEADLINE, Space
from toolkit.kube.errors import ApiError
from toolkit.objects import Json

_ROOT = "/apis/gitops.penstock.dev/v1alpha1"


class Window:
    """kubectl in the space, off the event loop.

    Have it wait for less than a minute, so that it tells what it waited for before it is ended.
    """

    def __init__(self, space: Space) -> None:
        self.space = space

    async def __call__(self, *words: str, as_: str = "", stdin: str | None = None) -> str:
        who = [f"--as=system:serviceaccount:{self.space.namespace}:{as_}"] if as_ else []
        kubectl = self.space.world.plane.kubectl
        return await asyncio.to_thread(
            kubectl, "-n", self.space.namespace, *words, *who, stdin=stdin
        )

    def path(self, subresource: str = "", name: str = "app") -> str:
        tail = f"/{subresource}" if subresource else ""
        return f"{_ROOT}/namespaces/{self.space.namespace}/inventories/{name}{tail}"

    async def raw(self, subresource: str = "", *, as_: str = "", name: str = "app") -> Json:
        found: Json = json.loads(await self("get", "--raw", self.path(subresource, name), as_=as_))
        return found

    async def until(self, holds: Callable[[Json], bool], *, name: str = "app") -> Json:
        """Return the inventory once something is true of it."""
        deadline = time.monotonic() + DEADLINE
        found: Json = {}
        while time.monotonic() < deadline:
            try:
                found = await self.space.world.api.request("GET", self.path(name=name))
            except ApiError as exc:
                found = {"error": str(exc)}
            else:
                if holds(found["status"]):
                    return found
            await asyncio.sleep(0.05)
        pytest.fail(f"the inventory did not get there; it is\n{yaml.safe_dump(found)}")

    async def refused(self, *words: str, as_: str = "", stdin: str | None = None) -> str:
        """Return what kubectl says when it fails."""
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever kubectl raises
            await self(*words, as_=as_, stdin=stdin)
        return str(raised.value) + str(getattr(raised.value, "stderr", ""))
