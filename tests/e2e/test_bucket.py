"""Buckets: objects of a real S3 server, from the API to the files that a consumer gets."""

import pytest

from tests.e2e.buckets import BUCKET, KEYS, put, source
from tests.e2e.conftest import (
    CONFIG_MAP,
    EVENT,
    KUSTOMIZATION,
    SECRET,
    Space,
    condition,
    config_map,
    is_ready,
)
from tests.e2e.sources import artifact_of, content, replace, secret
from tests.fakes.objectservers import S3Server
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def edited(space: Space, change: Json) -> None:
    await space.world.api.patch(BUCKET, "app", space.namespace, {"spec": change}, strategy="merge")


async def refused(space: Space, reason: str) -> Json:
    """Return the Bucket once it is Ready=False for a reason."""

    def holds(obj: Json) -> bool:
        ready = condition(obj, "Ready")
        return (ready.get("status"), ready.get("reason")) == ("False", reason)

    return await space.world.until(BUCKET, space.namespace, "app", holds)


async def test_objects_reach_the_cluster(space: Space, s3: S3Server) -> None:
    place = await s3.place()
    objects = {"deploy/app.yaml": config_map("app", water="flows"), "notes.md": "notes"}
    await put(place, **objects)

    await space.world.apply(
        secret(space, "keys", KEYS),
        source(space, place),
        space.kustomization(path="./deploy", sourceRef={"kind": "Bucket", "name": "app"}),
    )
    obj = await space.ready(BUCKET)
    await space.ready(KUSTOMIZATION)

    artifact = artifact_of(obj)
    hexadecimal = artifact["revision"].removeprefix("sha256:")
    assert artifact["path"] == f"bucket/{space.namespace}/app/{hexadecimal}.tar.gz"
    assert obj["status"]["url"] == artifact["url"].replace(hexadecimal, "latest")
    message = f"stored artifact: revision '{artifact['revision']}'"
    assert condition(obj, "Ready")["message"] == message
    assert condition(obj, "ArtifactInStorage")["message"] == message
    assert await content(obj) == objects
    assert (await space.get(CONFIG_MAP, "app"))["data"] == {"water": "flows"}
    await space.told("stored artifact", BUCKET)
    selector = "involvedObject.kind=Bucket,reason=NewArtifact"
    (event,) = await space.world.api.list(EVENT, space.namespace, field_selector=selector)
    assert event["message"] == f"stored artifact with 2 fetched files from '{place.bucket}' bucket"


async def test_a_changed_object_is_fetched_and_an_unchanged_bucket_is_not(
    space: Space, s3: S3Server
) -> None:
    place = await s3.place()
    await put(place, **{"a.yaml": "1", "b.yaml": "2"})
    await space.world.apply(secret(space, "keys", KEYS), source(space, place))
    first = await space.ready(BUCKET)

    await space.request(BUCKET)
    same = await space.ready(BUCKET)
    await put(place, **{"b.yaml": "3"})
    await space.request(BUCKET)
    second = await space.ready(BUCKET)

    assert artifact_of(same) == artifact_of(first)
    assert artifact_of(second)["revision"] != artifact_of(first)["revision"]
    assert await content(second) == {"a.yaml": "1", "b.yaml": "3"}


async def test_prefix_and_ignore_take_effect_when_they_change(space: Space, s3: S3Server) -> None:
    place = await s3.place()
    await put(place, **{"app/a.yaml": "1", "app/b.md": "2", "other/c.yaml": "3"})
    await space.world.apply(secret(space, "keys", KEYS), source(space, place))
    await space.ready(BUCKET)

    await edited(space, {"prefix": "app/", "ignore": "*.md"})
    obj = await space.world.until(
        BUCKET,
        space.namespace,
        "app",
        lambda obj: is_ready(obj) and obj["status"].get("observedIgnore") == "*.md",
    )

    assert await content(obj) == {"app/a.yaml": "1"}


async def test_a_wrong_key_keeps_the_artifact_and_a_right_one_heals(
    space: Space, s3: S3Server
) -> None:
    place = await s3.place()
    await put(place, **{"a.yaml": "1"})
    await space.world.apply(secret(space, "keys", KEYS), source(space, place))
    before = await space.ready(BUCKET)

    await replace(space, "keys", {**KEYS, "secretkey": "not this one"})
    await space.request(BUCKET)
    failed = await refused(space, "BucketOperationFailed")
    await replace(space, "keys", KEYS)
    healed = await space.ready(BUCKET)

    message = condition(failed, "Ready")["message"]
    assert "403" in message
    assert "not this one" not in message
    assert condition(failed, "FetchFailed")["status"] == "True"
    assert artifact_of(failed) == artifact_of(before) == artifact_of(healed)
    assert condition(healed, "FetchFailed") == {}


async def test_what_is_missing_is_named(space: Space, s3: S3Server) -> None:
    place = await s3.place()
    await space.world.apply(source(space, place))
    without_secret = await refused(space, "AuthenticationFailed")
    await space.world.apply(secret(space, "keys", {"accesskey": "only"}))
    await space.request(BUCKET)
    without_key = await refused(space, "AuthenticationFailed")
    await replace(space, "keys", KEYS)
    await edited(space, {"bucketName": "tests-nowhere"})
    without_bucket = await refused(space, "BucketOperationFailed")

    assert "keys' not found" in condition(without_secret, "Ready")["message"]
    assert "secretkey" in condition(without_key, "Ready")["message"]
    assert condition(without_bucket, "Ready")["message"] == "bucket 'tests-nowhere' not found"


async def test_a_deleted_bucket_leaves_nothing_to_serve(space: Space, s3: S3Server) -> None:
    place = await s3.place()
    await put(place, **{"a.yaml": "1"})
    await space.world.apply(secret(space, "keys", KEYS), source(space, place))
    obj = await space.ready(BUCKET)

    await space.world.api.delete(BUCKET, "app", space.namespace)
    await space.world.gone(BUCKET, space.namespace, "app")

    with pytest.raises(AssertionError):
        await content(obj)
    assert await space.world.exists(SECRET, space.namespace, "keys")
