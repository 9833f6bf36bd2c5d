"""A cloud is told whenever an object brings a CA of its own, by which anybody may be trusted.

With our own identity that is refused (``toolkit.remote.cloud``): a tenant's proxy would read it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.access.gitaccess import GitAccess
from controllers.access.registries import Access, Registries
from controllers.source.bucketplace import Places
from crds.meta import LocalObjectReference, ObjectMeta
from crds.source import GitRepository, GitRepositorySpec
from crds.source_bucket import Bucket, BucketSpec
from toolkit.remote.cloud.identity import Bearer, Login
from toolkit.remote.oci.oci import Repository

END = datetime(2030, 1, 1, tzinfo=UTC)
META = ObjectMeta(namespace="ns", name="app")
CERTS = LocalObjectReference(name="certs")


class Told:
    """A cloud that notes what it is told of the CA, and Secrets that all hold one."""

    def __init__(self, ca: bytes) -> None:
        self.own_ca: list[object] = []
        self._data = {"ca.crt": ca} if ca else {"username": b"a", "password": b"b"}

    async def read(self, _namespace: str, _name: str, *, reason: str) -> Mapping[str, bytes]:
        assert reason
        return self._data

    async def identity(self, _namespace: str, _account: str) -> None:
        return None

    async def registry(self, *_: object, own_ca: bool = False, **__: object) -> Login:
        self.own_ca.append(own_ca)
        return Login(username="u", password="p", expires_at=END)

    async def git(self, *_: object, own_ca: bool = False, **__: object) -> Bearer:
        self.own_ca.append(own_ca)
        return Bearer(token="t", expires_at=END)

    bucket = git


@pytest.fixture(params=[b"", b"pem"], ids=["without a CA", "with a CA"])
def ca(request: pytest.FixtureRequest) -> bytes:
    found: bytes = request.param
    return found


@pytest.fixture
def told(ca: bytes) -> Any:
    return Told(ca)


async def test_git(told: Any, ca: bytes) -> None:
    access = GitAccess(secrets=told, github=told, cloud=told, identity=told.identity)
    spec = GitRepositorySpec(
        url="https://dev.azure.com/a/b", interval="1m", provider="azure", secret_ref=CERTS
    )

    await access.grant(GitRepository(metadata=META, spec=spec))

    assert told.own_ca == [bool(ca)]


async def test_bucket(told: Any, ca: bytes) -> None:
    spec = BucketSpec(
        endpoint="storage.googleapis.com",
        bucket_name="b",
        interval="1m",
        provider="gcp",
        cert_secret_ref=CERTS if ca else None,
    )
    places = Places(secrets=told, cloud=told, accounts=told)

    await places.find(Bucket(metadata=META, spec=spec))

    assert told.own_ca == [bool(ca)]


async def test_registry(told: Any, ca: bytes) -> None:
    registries = Registries(
        http=told,
        tokens=told,
        secrets=told,
        pull_secrets=told.identity,
        identity=told.identity,
        cloud=told,
    )
    access = Access(namespace="ns", provider="gcp", cert_secret="certs" if ca else "")

    async with registries.open(access, Repository.parse("oci://gcr.io/a"), timeout=1.0):
        pass

    assert told.own_ca == [bool(ca)]
