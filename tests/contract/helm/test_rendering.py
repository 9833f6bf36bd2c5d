"""What changes rendered objects before they are applied: kustomize, and common metadata."""

import pytest

from tests.contract.helm.world import World, hook
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMMON: Json = {"labels": {"team": "shop"}, "annotations": {"note": "kept"}}
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: nginx:1}]}
"""


async def test_kustomize_and_metadata_change_what_is_applied(world: World) -> None:
    patch = '[{"op": "replace", "path": "/data/colour", "value": "patched"}]'
    renderers: list[Json] = [
        {"patches": [{"target": {"kind": "ConfigMap", "name": "app"}, "patch": patch}]},
        {"images": [{"name": "nginx", "newName": "mirror/nginx", "newTag": "2"}]},
    ]

    installed = await world.run(
        "install",
        world.chart(templates__pod_yaml=POD),
        postRenderers=renderers,
        commonMetadata=COMMON,
    )

    assert world.colour() == "patched"
    pod = world.get("api/v1 pods/web")
    assert pod is not None
    assert pod["spec"]["containers"][0]["image"] == "mirror/nginx:2"
    for each in installed.objects:
        assert each["metadata"]["labels"]["team"] == "shop"
        assert each["metadata"]["annotations"]["note"] == "kept"


@pytest.mark.parametrize(
    ("strategy", "marked"), [("combined", True), ("separate", True), ("nohooks", False)]
)
async def test_hooks_are_changed_by_strategy(world: World, strategy: str, marked: bool) -> None:  # noqa: FBT001
    chart = world.chart(templates__a_yaml=hook("before", "pre-install"))

    await world.run("install", chart, postRenderStrategy=strategy, commonMetadata=COMMON)

    found = world.config_map("before")
    assert found is not None
    assert ("team" in found["metadata"].get("labels", {})) is marked


@pytest.mark.parametrize(
    ("renderer", "told"),
    [
        ({"patches": [{"patch": "- op: remove"}]}, "postRenderers[0]"),
        ({"components": ["https://example.com/x"]}, "must be a relative path"),
        ({"patches": [{"target": {"kind": "ConfigMap"}, "patch": "[{]"}]}, "postRenderers[0]"),
    ],
)
async def test_bad_post_renderer_is_told(world: World, renderer: Json, told: str) -> None:
    error = await world.fails("install", world.chart(), postRenderers=[renderer])

    assert told in str(error)
    assert await world.history() == []


async def test_post_renderer_leaves_the_world_of_the_release_alone(world: World) -> None:
    """Its patches are texts; a path leads to no file of the machine."""
    secret = world.directory / "secret.yaml"
    secret.write_text("kind: ConfigMap\nmetadata: {name: app}\ndata: {stolen: file}\n")

    error = await world.fails(
        "install", world.chart(), postRenderers=[{"patchesStrategicMerge": [str(secret)]}]
    )

    assert "file does not exist" in str(error)


async def test_chart_without_objects_is_a_release(world: World) -> None:
    chart = world.chart(templates__configmap_yaml="{{- /* nothing */ -}}")

    installed = await world.run(
        "install", chart, postRenderers=[{"images": []}], commonMetadata=COMMON
    )

    assert installed.objects == ()


TWICE = """\
apiVersion: v2
name: shop
version: 1.0.0
dependencies:
  - {name: redis, version: 1.0.0, repository: "file://../redis", alias: cache}
  - {name: redis, version: 1.0.0, repository: "file://../redis", alias: queue}
"""
SIZE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Chart.Name }}
data:
  size: {{ .Values.size | quote }}
"""


@pytest.mark.parametrize("directories", [["redis"], ["redis", "redis-2"]])
async def test_dependency_is_rendered_under_each_alias(
    world: World, directories: list[str]
) -> None:
    """Helm vendors one package for both aliases; the source controller gives each a directory."""
    vendored = {}
    for name in directories:
        vendored[f"charts__{name}__Chart_yaml"] = "apiVersion: v2\nname: redis\nversion: 1.0.0\n"
        vendored[f"charts__{name}__values_yaml"] = "size: 1\n"
        vendored[f"charts__{name}__templates__size_yaml"] = SIZE

    await world.run(
        "install",
        world.chart(Chart_yaml=TWICE, values_yaml="colour: red\ncache: {size: 2}\n", **vendored),
        values={"queue": {"size": 3}},
    )

    sizes = {name: dig(world.config_map(name) or {}, "data", "size") for name in ("cache", "queue")}
    assert sizes == {"cache": "2", "queue": "3"}
