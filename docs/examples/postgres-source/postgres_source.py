"""Publish the rows of a PostgreSQL table as an ExternalArtifact.

An example of a source controller by a third party: it knows the Kubernetes API and the artifact
store's upload interface, and nothing else of Penstock. Every row of the table ``manifests`` is a
file of the artifact. A change of the table is published as soon as PostgreSQL tells of it.

It keeps nothing: what it finds in the cluster decides what is to be done, so it may be killed at
any moment, and run anew as often as you like.
"""
# ruff: noqa: INP001 - a program, not part of a package

import asyncio
import contextlib
import datetime as dt
import gzip
import hashlib
import io
import logging
import os
import ssl
import tarfile
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

Json = dict[str, Any]

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TIMEOUT = aiohttp.ClientTimeout(total=60)

logger = logging.getLogger("postgres-source")


class Settings:
    """What the environment says; the defaults are those of a pod."""

    database = os.environ["DATABASE_URL"]
    namespace = os.environ["ARTIFACT_NAMESPACE"]
    name = os.environ["ARTIFACT_NAME"]
    interval = float(os.environ.get("INTERVAL_SECONDS", "60"))
    store = os.environ.get("STORE_URL", "http://source-controller.penstock-system.svc")
    upload_token = Path(os.environ.get("UPLOAD_TOKEN_FILE", "/var/run/secrets/upload/token"))
    api = os.environ.get("KUBERNETES_API", "https://kubernetes.default.svc")
    api_token = Path(os.environ.get("KUBERNETES_TOKEN_FILE", f"{ACCOUNT}/token"))
    api_ca = os.environ.get("KUBERNETES_CA_FILE", f"{ACCOUNT}/ca.crt")


class RefusedError(Exception):
    """The cluster or the store answered with an error; the text is its own."""


# 1. Where the files come from: this part is yours.


async def read_rows(database: asyncpg.Connection) -> dict[str, bytes]:
    """Return the content of every row by its path."""
    rows = await database.fetch("SELECT path, content FROM manifests")
    return {row["path"]: row["content"].encode() for row in rows}


# 2. The artifact: a gzipped tarball whose bytes depend on the files alone.


def pack(files: dict[str, bytes]) -> bytes:
    """Return a tarball; equal files make equal bytes, so the digest tells what is new."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(files):
            member = tarfile.TarInfo(path)  # no owner, no time
            member.size = len(files[path])
            archive.addfile(member, io.BytesIO(files[path]))
    return gzip.compress(out.getvalue(), mtime=0)


# 3. The object and its artifact.


class Publisher:
    """Writes one ExternalArtifact, and uploads what its status names."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._tls = ssl.create_default_context(cafile=Settings.api_ca)
        kind = f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{Settings.namespace}"
        self._all = f"{Settings.api}{kind}/externalartifacts"
        self._one = f"{self._all}/{Settings.name}"

    async def publish(self, files: dict[str, bytes]) -> None:
        """Have the object tell these files. Nothing is written if it does already."""
        obj = await self._object()
        tarball = pack(files)
        digest = f"sha256:{hashlib.sha256(tarball).hexdigest()}"
        artifact = obj.get("status", {}).get("artifact", {})
        if artifact.get("digest") != digest or not await self._is_served(artifact):
            artifact = await self._upload(tarball, digest)
            logger.info("published %s rows as %s", len(files), artifact["revision"])
        await self._tell(obj, "True", "Succeeded", f"{len(files)} rows", artifact)

    async def fail(self, reason: str) -> None:
        """Have the object tell what is wrong; the last artifact stays."""
        await self._tell(await self._object(), "False", "FetchFailed", reason)

    async def _object(self) -> Json:
        """Return the object. It has to be there before its artifact is uploaded."""
        status, obj = await self._call("GET", self._one)
        if status != 404:
            return obj
        body = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "ExternalArtifact",
            "metadata": {"name": Settings.name, "namespace": Settings.namespace},
            # for people: which object this artifact is made from
            "spec": {
                "sourceRef": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "postgres-source",
                }
            },
        }
        return (await self._call("POST", self._all, body))[1]

    async def _upload(self, tarball: bytes, digest: str) -> Json:
        """Put the tarball into the store and return what the status has to say of it.

        The name follows the content: who was told of the last artifact can still fetch that.
        """
        path = f"externalartifact/{Settings.namespace}/{Settings.name}"
        headers = {
            "Authorization": f"Bearer {Settings.upload_token.read_text().strip()}",
            "X-Artifact-Digest": digest,
        }
        url = f"{Settings.store}/{path}/{digest.removeprefix('sha256:')}.tar.gz"
        async with self._session.put(url, data=tarball, headers=headers) as response:
            answer: Json = await response.json()
            if response.status != 201:
                raise RefusedError(answer.get("error", f"HTTP status {response.status}"))
            return answer

    async def _is_served(self, artifact: Json) -> bool:
        async with self._session.head(artifact["url"]) as response:
            return response.status == 200

    async def _tell(
        self, obj: Json, ready: str, reason: str, message: str, artifact: Json | None = None
    ) -> None:
        """Write the status if it differs; Penstock and `kubectl wait` understand Ready."""
        before = obj.get("status", {})
        old = next((c for c in before.get("conditions", []) if c["type"] == "Ready"), {})
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": reason,
            "message": message[:1000],
            "observedGeneration": obj["metadata"]["generation"],
        }
        changed = old.get("status") != ready
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition["lastTransitionTime"] = now if changed else old["lastTransitionTime"]
        status: Json = {"conditions": [condition]} | ({"artifact": artifact} if artifact else {})
        if before | status != before:
            await self._call("PATCH", f"{self._one}/status", {"status": status})

    async def _call(self, method: str, url: str, body: Json | None = None) -> tuple[int, Json]:
        # Tokens are exchanged while we run, so they are read each time.
        headers = {
            "Authorization": f"Bearer {Settings.api_token.read_text().strip()}",
            "Content-Type": "application/merge-patch+json"
            if method == "PATCH"
            else "application/json",
        }
        async with self._session.request(
            method, url, json=body, headers=headers, ssl=self._tls
        ) as response:
            answer: Json = await response.json()
            if response.status >= 400 and (method, response.status) != ("GET", 404):
                raise RefusedError(answer.get("message", f"HTTP status {response.status}"))
            return response.status, answer


# 4. The loop: at the start, when the table changes, and now and then.


async def follow(publisher: Publisher) -> None:
    """Publish what the table holds, until the connection breaks."""
    database = await asyncpg.connect(Settings.database, timeout=10)
    changed = asyncio.Event()
    try:
        await database.add_listener("manifests", lambda *_: changed.set())
        while True:
            changed.clear()
            await publisher.publish(await read_rows(database))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), Settings.interval)
    finally:
        await database.close(timeout=5)


async def main() -> None:
    """Follow the table, and begin again after every failure."""
    logging.basicConfig(level=logging.INFO)
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        publisher = Publisher(session)
        while True:
            try:
                await follow(publisher)
            except (OSError, aiohttp.ClientError, asyncpg.PostgresError, RefusedError) as error:
                logger.warning("not published: %s", error)
                with contextlib.suppress(OSError, aiohttp.ClientError, RefusedError):
                    await publisher.fail(str(error))
            await asyncio.sleep(min(5.0, Settings.interval))


if __name__ == "__main__":
    asyncio.run(main())
