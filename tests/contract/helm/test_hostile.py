"""Charts, API servers and workers that mean harm: each is ended, and no neighbour with it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.contract.helm.world import CONFIG_MAP, World, statuses
from toolkit.helm.gates import Exchanging, Response
from toolkit.native.pool import WorkerMemoryError

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENDLESS = """\
{{- range until 100000 }}{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}{{ end }}
"""
BOMBS = {
    "repeat": CONFIG_MAP + '  size: {{ repeat 2000000000 "x" | len }}\n',
    "indent": CONFIG_MAP + '  size: {{ indent 3000000000 "x" | len }}\n',
    "500 MB": CONFIG_MAP
    + '  size: |\n{{ range until 500 }}    {{ repeat 1000000 "x" }}\n{{ end }}',
}


async def test_loop_without_end_is_ended_and_nobody_else(world: World) -> None:
    neighbour = world.with_(storage_namespace=world.namespace)
    looping = asyncio.create_task(
        world.fails("install", world.chart(templates__loop_yaml=ENDLESS), rendering=1)
    )
    beside = await neighbour.run("render", world.chart())

    error = await looping

    assert error.code == "RenderTimeout"
    assert "not rendered within 1s: one of them may have a loop without end" in str(error)
    assert error.outcome.records == ()
    assert len(beside.objects) == 1
    assert await world.history() == []


@pytest.mark.parametrize("bomb", [*BOMBS])
async def test_chart_that_explodes_is_ended(world: World, bomb: str) -> None:
    chart = world.chart(templates__configmap_yaml=BOMBS[bomb])

    with pytest.raises(WorkerMemoryError, match="more memory than allowed"):
        await world.run("install", chart)

    assert statuses(await world.run("install", world.chart())) == [(1, "deployed")]


@dataclass
class Endless:
    """An API server that answers a request for records without end."""

    client: Exchanging

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        if method == "GET" and "labelSelector" in target:
            yield 200, {"Content-Type": "application/json"}, _spaces()
            return
        async with self.client.exchange(method, target, headers=headers, body=body) as answer:
            yield answer


async def _spaces() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 1_000_000
        await asyncio.sleep(0)


async def test_answer_without_end_is_cut_off(world: World) -> None:
    hostile = world.with_(keeping=Endless(world.api))

    error = await hostile.fails("history")

    assert "sent more than 64 MiB" in str(error)


@pytest.mark.parametrize(
    ("megabytes", "said"),
    [
        pytest.param(1, "Too long: may not be more than 1048576 bytes", id="than a Secret"),
        pytest.param(5, "Request entity too large: limit is 3145728", id="than a request"),
    ],
)
async def test_larger_record_is_refused_before_anything_is_applied(
    world: World, megabytes: int, said: str
) -> None:
    ballast = secrets.token_hex(megabytes * 700_000)  # cannot be compressed

    error = await world.fails("install", world.chart(files__ballast_txt=ballast))

    assert error.code == "RecordTooLarge"
    assert said in str(error)
    assert "leave out of the chart what no template needs (.helmignore)" in str(error)
    assert world.config_map() is None
    assert await world.history() == []
