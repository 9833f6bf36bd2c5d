"""What the tests of Buckets share."""

from typing import Any

from tests.e2e.conftest import Space
from tests.fakes.objectservers import ACCESS_KEY, SECRET_KEY
from toolkit.objects import GroupVersionKind, Json
from toolkit.remote.objectstore.objectstore import ObjectStore, Place

BUCKET = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "Bucket")
KEYS = {"accesskey": ACCESS_KEY, "secretkey": SECRET_KEY}


def source(space: Space, place: Place, name: str = "app", **spec: Any) -> Json:
    """Return a Bucket at a place, with the keys of the Secret ``keys``."""
    return {
        "apiVersion": BUCKET.api_version,
        "kind": "Bucket",
        "metadata": {"name": name, "namespace": space.namespace},
        "spec": {
            "interval": "10m",
            "endpoint": place.endpoint,
            "bucketName": place.bucket,
            "insecure": True,
            "secretRef": {"name": "keys"},
            **spec,
        },
    }


async def put(place: Place, **objects: str) -> None:
    """Write objects by their keys."""
    async with ObjectStore(place) as store:
        for key, data in objects.items():
            await store.write_bytes(key, data.encode())
