"""A process that replaces one artifact of a bucket by another, again and again, until killed."""

import asyncio
import secrets
import sys
from pathlib import Path

from tests.fakes.bucketreplicas import OWNER
from tests.fakes.objectservers import ACCESS_KEY, SECRET_KEY
from toolkit.artifact.bucket import BucketStorage
from toolkit.artifact.cache import Cache
from toolkit.remote.objectstore.objectstore import ObjectStore, Place, S3Keys


async def write_for_ever(endpoint_and_bucket: str, base: Path) -> None:
    """Write a line after each artifact."""
    endpoint, bucket = endpoint_and_bucket.split("/")
    place = Place(
        provider="generic",
        endpoint=endpoint,
        bucket=bucket,
        plain_http=True,
        credentials=S3Keys(access_key=ACCESS_KEY, secret_key=SECRET_KEY),
    )
    cache = Cache(base / "cache", idle_copies=1, idle_bytes=1)
    await cache.open()
    async with ObjectStore(place) as objects:
        storage = BucketStorage(
            quick=objects,
            bulk=objects,
            prefix="fleet/",
            scratch=base / "scratch",
            cache=cache,
            advertised="x",
        )
        file = base / "file"
        while True:
            file.write_bytes(secrets.token_bytes(3 << 20))
            await storage.store_file(OWNER, revision="1", filename="x.tgz", file=file)
            print("stored", flush=True)  # noqa: T201  # for the one who kills us


if __name__ == "__main__":
    asyncio.run(write_for_ever(sys.argv[1], Path(sys.argv[2])))
