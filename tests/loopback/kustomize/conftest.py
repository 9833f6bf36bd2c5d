"""Builds as the controller makes them: a directory is stored, served, fetched and built."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest_asyncio

from controllers.kustomize.decryption import Held, Keys
from controllers.kustomize.inputs import Inputs
from controllers.kustomize.rendering import Rendered, Renderer
from controllers.kustomize.sources import Mount, Sources
from crds import GIT_REPOSITORY
from crds.kustomize import Kustomization
from tests.fakes import keyscene
from tests.fakes.serving import serving
from toolkit.artifact import server
from toolkit.artifact.fetch import Fetcher
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.kms.services import KeyServices
from toolkit.decrypt.kms.ways import Access
from toolkit.native import build, calls
from toolkit.objects import GroupVersionKind, ObjectRef

NAMESPACE = "team"


@dataclass(frozen=True, kw_only=True)
class Builds:
    """A source and a renderer; ``directory`` holds all that both have on disk."""

    directory: Path
    storage: Storage
    renderer: Renderer
    services: KeyServices
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def render(
        self,
        files: Mapping[str, str | bytes],
        *,
        keys: Mapping[str, bytes] | None = None,
        variables: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Rendered:
        """Return what a Kustomization of these files applies.

        ``keys`` are the data of the Secret with decryption keys, None if it does not decrypt.
        """
        inputs = Inputs(
            variables=dict(variables or {}),
            keys=None if keys is None else self._keys(keys),
            versions=(),
        )
        sources = await self.store(files)
        return await self.renderer.render(_kustomization(spec), sources, inputs, seconds=60)

    async def store(self, files: Mapping[str, str | bytes]) -> Sources:
        """Return the sources of which these files are the artifact."""
        number = next(self.numbers)
        tree = self.directory / f"tree-{number}"
        await asyncio.to_thread(_write, tree, files)
        ref = ObjectRef(GroupVersionKind(*GIT_REPOSITORY.gvk), NAMESPACE, f"app-{number}")
        artifact = await self.storage.store(
            Owner(kind=ref.gvk.kind, namespace=ref.namespace, name=ref.name),
            revision="main@sha1:abc",
            filename="abc.tar.gz",
            tree=tree,
            ignore=Ignore.from_rules(None),
        )
        return Sources(mounts=(Mount(path="", ref=ref, artifact=artifact),))

    def _keys(self, secret: Mapping[str, bytes]) -> Keys:
        async def read() -> Held:
            return Held(ring=KeyRing.from_secret(secret))

        async def access(held: Held) -> Access:
            return Access(logins=held.logins, account=None, own=False, listed=False)

        return Keys(self.services, read=read, access=access, namespace="team")

    def holders(self, word: str) -> list[Path]:
        """Return the files on disk that hold a word."""
        files = (path for path in self.directory.rglob("*") if path.is_file())
        return [path for path in files if word.encode() in path.read_bytes()]


def _write(tree: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _kustomization(spec: Mapping[str, Any]) -> Kustomization:
    obj = {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": NAMESPACE},
        "spec": {
            "interval": "1m",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "app"},
            "targetNamespace": NAMESPACE,
            **spec,
        },
    }
    return msgspec.convert(obj, Kustomization)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def builds(tmp_path_factory: Any) -> AsyncIterator[Builds]:
    """Run the stages of a build, with one worker, for the tests of a module."""
    build.build()
    directory = tmp_path_factory.mktemp("builds")
    storage = Storage(directory / "storage", advertised="artifacts.test")
    copies = directory / "copies"
    copies.mkdir()
    pool = calls.start(size=1, reads=(copies,))
    try:
        async with (
            keyscene.running() as scene,
            serving(server.application(storage)) as port,
            Fetcher(copies, host_override=f"127.0.0.1:{port}") as fetcher,
        ):
            yield Builds(
                directory=directory,
                storage=storage,
                renderer=Renderer(pool=pool, fetcher=fetcher, strict=True),
                services=KeyServices(scene.cloud, engine=scene.engine),
            )
    finally:
        await pool.close()
