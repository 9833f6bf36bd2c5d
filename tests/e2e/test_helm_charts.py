"""Charts of each kind of source beside a HelmRepository, from the source to a release."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e import buckets, ocirepositories
from tests.e2e.buckets import BUCKET, KEYS, put
from tests.e2e.conftest import GIT_REPOSITORY, Space, is_ready
from tests.e2e.generators import EXTERNAL, artifact, generator
from tests.e2e.helmreleases import HELM_RELEASE, at, release, settings, shop
from tests.e2e.ocirepositories import OCI_REPOSITORY
from tests.e2e.sources import digest_of, secret
from tests.fakes.charts import package
from tests.fakes.objectservers import S3Server
from tests.fakes.registry import HELM_CONFIG, HELM_CONTENT, FakeRegistry
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


def files(version: str) -> Mapping[str, str]:
    """Return the files of the chart, below the folder that a source holds it in."""
    return {f"charts/shop/{path}": text for path, text in shop(version).items()}


def of_kind(space: Space, kind: str) -> Json:
    """Return a HelmRelease of the artifact of a source ``shop``."""
    obj = release(space, chartRef={"kind": kind, "name": "shop"})
    del obj["spec"]["chart"]
    return obj


async def test_chart_of_a_registry_is_released_by_its_digest(space: Space) -> None:
    async with FakeRegistry() as registry:

        def push(version: str) -> str:
            data = package(shop(version), folder="shop")
            pushed = registry.push(
                "charts/shop", version, [data], HELM_CONTENT, config_type=HELM_CONFIG
            )
            return f"{version}+{pushed['digest'].removeprefix('sha256:')[:12]}"

        first = push("1.0.0")
        offered = ocirepositories.source(
            space,
            registry,
            "shop",
            url=registry.url("charts/shop"),
            ref={"semver": ">=1"},
            layerSelector={"mediaType": HELM_CONTENT, "operation": "copy"},
        )
        await space.world.apply(offered, of_kind(space, "OCIRepository"))
        await at(space, first)
        second = push("1.1.0")
        await space.request(OCI_REPOSITORY, "shop")
        told = await at(space, second)

    assert (await settings(space))["version"] == second
    assert "helmChart" not in told["status"]


async def test_chart_in_a_bucket_is_released_and_followed(space: Space, s3: S3Server) -> None:
    place = await s3.place()
    await put(place, **files("1.0.0"))
    chart: dict[str, Any] = {
        "chart": "charts/shop",
        "sourceRef": {"kind": BUCKET.kind, "name": "app"},
    }
    await space.world.apply(
        secret(space, "keys", KEYS),
        buckets.source(space, place),
        release(space, chart={"spec": chart}),
    )
    first = await at(space, "1.0.0")
    before = await settings(space)
    await put(place, **files("1.1.0"))
    await space.request(BUCKET)
    await at(space, "1.1.0")

    assert first["status"]["helmChart"] == f"{space.namespace}/{space.namespace}-app"
    assert before["version"] == "1.0.0"
    assert (await settings(space))["version"] == "1.1.0"


async def test_chart_in_an_external_artifact_is_released_by_its_digest(space: Space) -> None:
    def released(obj: Json) -> bool:
        version = str(obj.get("status", {}).get("lastAppliedRevision", ""))
        return is_ready(obj) and version.startswith(wanted)

    repository = space.repository()
    repository.commit(files("1.0.0"))
    output = artifact("shop", ("@app/charts/shop/**", "@artifact/shop/"))
    await space.world.apply(
        space.source(repository),
        generator(space, output),
        of_kind(space, "ExternalArtifact"),
    )
    wanted = "1.0.0+"
    first = await space.world.until(HELM_RELEASE, space.namespace, "app", released)
    made = await space.get(EXTERNAL, "shop")
    repository.commit(files("1.1.0"))
    await space.request(GIT_REPOSITORY)
    wanted = "1.1.0+"
    second = await space.world.until(HELM_RELEASE, space.namespace, "app", released)

    assert first["status"]["lastAppliedRevision"] == f"1.0.0+{digest_of(made)[7:19]}"
    assert first["status"]["history"][0]["ociDigest"] == digest_of(made)
    assert "helmChart" not in second["status"]
    assert (await settings(space))["version"] == second["status"]["lastAppliedRevision"]
