"""Charts, records and post-renderers that reach for what is not theirs, and get none of it."""

import asyncio
import base64
import dataclasses
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.contract.helm.world import CONFIG_MAP, World, statuses
from toolkit.helm import actions
from toolkit.native.pool import WorkerDiedError, WorkerMemoryError, WorkerPool
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "hunter-22"
LEAK = json.dumps({"properties": {"colour": {"const": SECRET}}})


def _schema_of(secret: Json | None) -> str:
    """Return the schema in the record of a release, as Helm's client reads it."""
    packed = base64.b64decode(base64.b64decode((secret or {})["data"]["release"]))
    kept = json.loads(gzip.decompress(packed))["chart"]["schema"]
    return base64.b64decode(kept).decode()


def schema(content: Json) -> str:
    return json.dumps(content)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Give the address of a server, and what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + LEAK.encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}/schema.json", asked


async def test_schema_reads_no_file_of_another_chart(world: World) -> None:
    other = world.directory / "other.json"  # as the charts of others, where a worker may read
    other.write_text(LEAK)

    error = await world.fails(
        "install", world.chart(values_schema_json=schema({"$ref": f"file://{other}"}))
    )

    assert error.code == "SchemaViolation"
    assert f'refers to "file://{other}": only references within the schema and to web' in str(error)
    assert SECRET not in str(error)
    assert await world.history() == []


async def test_schema_asks_no_server(world: World) -> None:
    async with listening() as (url, asked):
        written = schema({"properties": {"part": {"$ref": url}, "colour": {"type": "string"}}})
        chart = world.chart(values_schema_json=written)
        error = await world.fails("install", chart, values={"colour": 1})
        done = await world.run("install", chart, values={"part": 1, "colour": "red"})

    assert error.code == "SchemaViolation"
    assert statuses(done) == [(1, "deployed")]
    assert done.unchecked == (f'values.schema.json of chart "shop" refers to "{url}"',)
    assert asked == []
    assert _schema_of(world.get("api/v1 secrets/sh.helm.release.v1.app.v1")) == written


async def test_dialect_of_another_host_validates_nothing(world: World) -> None:
    async with listening() as (url, asked):
        chart = world.chart(values_schema_json=schema({"$schema": url, "type": "string"}))
        done = await world.run("install", chart)

    assert statuses(done) == [(1, "deployed")]
    assert done.unchecked
    assert asked == []


async def test_schema_of_a_subchart_reads_no_file_either(world: World) -> None:
    parts = {
        "charts__part__Chart_yaml": "apiVersion: v2\nname: part\nversion: 1.0.0\n",
        "charts__part__values_schema_json": schema({"$ref": "../secret.json"}),
    }

    error = await world.fails("install", world.chart(**parts))

    assert 'values.schema.json of chart "part" refers to "file:///secret.json"' in str(error)


async def test_schema_of_a_subchart_that_is_not_enabled_does_not_matter(world: World) -> None:
    parts = {
        "Chart_yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n"
        "dependencies: [{name: part, version: 1.0.0, condition: part.enabled}]\n",
        "charts__part__Chart_yaml": "apiVersion: v2\nname: part\nversion: 1.0.0\n",
        "charts__part__values_schema_json": schema({"$ref": "../secret.json"}),
    }

    done = await world.run("install", world.chart(**parts), values={"part": {"enabled": False}})

    assert statuses(done) == [(1, "deployed")]


async def test_schema_that_refers_to_itself_is_followed(world: World) -> None:
    inner = {
        "$defs": {"text": {"type": "string"}},
        "properties": {"colour": {"$ref": "#/$defs/text"}},
    }
    chart = world.chart(
        values_schema_json=schema({"$schema": "http://json-schema.org/draft-07/schema#", **inner})
    )

    error = await world.fails("install", chart, values={"colour": 7})

    assert "got number, want string" in str(error)
    assert statuses(await world.run("install", chart)) == [(1, "deployed")]


async def test_schema_without_end_is_ended(world: World) -> None:
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    definitions = doubled | {"d40": {"type": "object"}}
    chart = world.chart(values_schema_json=schema({"$ref": "#/$defs/d0", "$defs": definitions}))

    error = await world.fails("install", chart, rendering=1)

    assert error.code == "RenderTimeout"
    assert await world.history() == []


def record(packed: bytes) -> Json:
    """Return a record of Helm's: who may write Secrets may write one."""
    return {
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": "sh.helm.release.v1.app.v1",
            "labels": {"owner": "helm", "name": "app", "status": "deployed", "version": "1"},
        },
        "data": {"release": base64.b64encode(base64.b64encode(packed)).decode()},
    }


async def test_record_that_explodes_is_ended(world: World) -> None:
    """To gzip, a thousand bytes stand for a million."""
    world.make("api/v1 secrets", record(gzip.compress(b" " * 10_000_000) * 70))

    with pytest.raises(WorkerMemoryError, match="more memory than allowed"):
        await world.run("history")

    neighbour = await world.run("render", world.chart())
    assert len(neighbour.objects) == 1


async def test_giant_record_does_not_reach_the_controller(world: World) -> None:
    release = {
        "name": "app",
        "namespace": world.namespace,
        "version": 1,
        "info": {"status": "deployed", "notes": "x" * (2 << 20)},
        "chart": {"metadata": {"name": "shop", "version": "1.0.0"}},
    }
    world.make("api/v1 secrets", record(gzip.compress(json.dumps(release).encode())))

    # A smaller limit, because reading a text of this one takes seconds.
    assert actions.kind().answer_limit == actions.ANSWER_LIMIT
    pool = WorkerPool(dataclasses.replace(actions.kind(), answer_limit=1 << 20), size=1)
    try:
        with pytest.raises(WorkerDiedError, match=r"its answer has \d+ MiB"):
            await world.with_(pool=pool).run("history")
    finally:
        await pool.close()

    neighbour = await world.run("render", world.chart())
    assert len(neighbour.objects) == 1


PATCHES = {
    "a file to merge": {"patchesStrategicMerge": ["/etc/passwd"]},
    "a file of the build": {"patchesStrategicMerge": ["manifests.yaml"]},
    "a path": {"patches": [{"path": "/etc/passwd", "target": {"kind": "ConfigMap"}}]},
    "a file as patch": {"patches": [{"patch": "/etc/passwd", "target": {"kind": "ConfigMap"}}]},
}


@pytest.mark.parametrize("patch", [*PATCHES])
async def test_post_renderer_reads_no_file(world: World, patch: str) -> None:
    error = await world.fails("install", world.chart(), postRenderers=[PATCHES[patch]])

    assert "postRenderers[0]: kustomize build failed" in str(error)
    assert "root:" not in str(error)
    assert await world.history() == []


async def test_templates_read_no_file_but_those_of_the_chart(world: World) -> None:
    reads = (
        CONFIG_MAP
        + """\
  outside: {{ .Files.Get "../../../../../../../etc/passwd" | quote }}
  absolute: {{ .Files.Get "/etc/passwd" | quote }}
  resolved: {{ getHostByName "localhost" | quote }}
"""
    )

    await world.run("install", world.chart(templates__configmap_yaml=reads))

    found = world.config_map()
    assert found is not None
    assert found["data"] == {"colour": "red", "outside": "", "absolute": "", "resolved": ""}


async def test_templates_read_no_environment(world: World) -> None:
    for call in ("env", "expandenv"):
        text = CONFIG_MAP + f'  home: {{{{ {call} "HOME" }}}}\n'

        error = await world.fails("install", world.chart(templates__configmap_yaml=text))

        assert f'function "{call}" not defined' in str(error)
