"""Uploads as a third-party source controller makes them, judged by a real API server."""

import asyncio
import base64
import contextlib
import gzip
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.fakes.serving import Serve
from toolkit.artifact import access, orphans, server
from toolkit.artifact.access import Access
from toolkit.artifact.intake import Pace
from toolkit.artifact.quota import UploadLimits
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.artifact.uploads import KIND, Uploads
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError

RULES = [
    {
        "apiGroups": ["source.toolkit.fluxcd.io"],
        "resources": ["externalartifacts/status"],
        "resourceNames": ["rows", "absent"],
        "verbs": ["update"],
    }
]


async def token(api: Client, namespace: str, account: str, *audiences: str) -> str:
    answer = await api.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
        body={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": list(audiences)},
        },
    )
    return str(answer["status"]["token"])


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A namespace with the ExternalArtifact ``rows``, and tokens of who may and who may not."""

    namespace: str
    token: str
    stranger: str
    wrong_audience: str

    @property
    def owner(self) -> Owner:
        return Owner(kind="ExternalArtifact", namespace=self.namespace, name="rows")

    def path(self, filename: str = "rows.tar.gz", *, name: str = "rows") -> str:
        return f"/externalartifact/{self.namespace}/{name}/{filename}"


@pytest_asyncio.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as opened:
        yield opened


@pytest_asyncio.fixture
async def tenant(api: Client, namespace: str, definitions: None) -> Tenant:
    del definitions
    for account in ("writer", "stranger"):
        await api.create(made("v1", "ServiceAccount", account, namespace))
    rbac = "rbac.authorization.k8s.io"
    await api.create(made(f"{rbac}/v1", "Role", "writer", namespace) | {"rules": RULES})
    await api.create(
        made(f"{rbac}/v1", "RoleBinding", "writer", namespace)
        | {
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "writer"},
            "subjects": [{"kind": "ServiceAccount", "name": "writer", "namespace": namespace}],
        }
    )
    await api.create(made(KIND.api_version, KIND.kind, "rows", namespace))
    return Tenant(
        namespace=namespace,
        token=await token(api, namespace, "writer", access.AUDIENCE),
        stranger=await token(api, namespace, "stranger", access.AUDIENCE),
        wrong_audience=await token(api, namespace, "writer"),
    )


def made(api_version: str, kind: str, name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
    }


SMALL = UploadLimits(artifact_bytes=1 << 20, namespace_bytes=3 << 20, namespace_a_minute=8)


@dataclass(kw_only=True)
class Door:
    """The artifact server with uploads, and a client that has no manners of its own."""

    session: aiohttp.ClientSession
    storage: Storage
    scratch: Path
    address: str

    async def put(
        self, tenant: Tenant, body: Any, *, path: str = "", token: str = "", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Authorization"] = f"Bearer {token or tenant.token}"
        url = path or tenant.path()
        async with self.session.put(url, data=body, headers=named) as response:
            return response.status, await response.json()

    def leftovers(self) -> list[Path]:
        return list(self.scratch.glob("*"))


@pytest_asyncio.fixture
async def door(api: Client, storage: Storage, serve: Serve, tmp_path: Path) -> AsyncIterator[Door]:
    uploads = Uploads(
        storage,
        access=Access(api),
        objects=api,
        scratch=tmp_path / "scratch",
        limits=SMALL,
        pace=Pace(grace_seconds=0.5, bytes_per_second=1 << 20),
    )
    address = await serve(server.application(storage, uploads=uploads))
    async with aiohttp.ClientSession(f"http://{address}") as session:
        yield Door(session=session, storage=storage, scratch=tmp_path / "scratch", address=address)


def tarball(*members: tuple[str, bytes], padding: int = 0) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if padding:
            info = tarfile.TarInfo("padding")
            info.size = padding
            tar.addfile(info, io.BytesIO(random_bytes(padding)))
    return out.getvalue()


def random_bytes(size: int) -> bytes:
    return hashlib.shake_256(str(size).encode()).digest(size)


ROWS = tarball(("rows.yaml", b"a: 1\n"))


async def test_who_may_write_the_status_may_upload(door: Door, tenant: Tenant) -> None:
    status, artifact = await door.put(tenant, ROWS)

    digest = f"sha256:{hashlib.sha256(ROWS).hexdigest()}"
    assert status == 201
    assert artifact["digest"] == digest
    assert artifact["path"] == tenant.path().removeprefix("/")
    assert artifact["url"] == f"http://artifacts.test{tenant.path()}"
    assert artifact["revision"] == f"latest@{digest}"
    assert artifact["size"] == len(ROWS)
    assert artifact["lastUpdateTime"].endswith("Z")
    async with door.session.get(tenant.path()) as response:
        assert await response.read() == ROWS
    assert door.leftovers() == []


async def test_the_answer_is_a_status_that_the_api_server_takes(
    door: Door, tenant: Tenant, api: Client
) -> None:
    _, artifact = await door.put(tenant, ROWS)

    written = await api.patch(
        KIND,
        "rows",
        tenant.namespace,
        {"status": {"artifact": artifact}},
        strategy="merge",
        subresource="status",
    )

    assert written["status"]["artifact"] == artifact


async def test_the_sender_names_the_revision(door: Door, tenant: Tenant) -> None:
    asked = await door.put(tenant, ROWS, path=tenant.path() + "?revision=rows@sha256:ab")
    headed = await door.put(tenant, ROWS, X_Artifact_Revision="rows@7")

    assert asked[1]["revision"] == "rows@sha256:ab"
    assert headed[1]["revision"] == "rows@7"


@pytest.mark.parametrize("revision", ["a b", "a\tb", "x" * 513])
async def test_a_revision_that_is_none_is_refused(
    door: Door, tenant: Tenant, revision: str
) -> None:
    status, answer = await door.put(tenant, ROWS, X_Artifact_Revision=revision)

    assert (status, "printable" in answer["error"]) == (400, True)


async def test_the_same_again_is_the_same_artifact(door: Door, tenant: Tenant) -> None:
    assert await door.put(tenant, ROWS) == await door.put(tenant, ROWS)


async def test_without_a_token_nobody_gets_in(door: Door, tenant: Tenant) -> None:
    for header in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"}):
        async with door.session.put(tenant.path(), data=ROWS, headers=header) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert access.AUDIENCE in (await response.json())["error"]


async def test_a_token_for_another_audience_is_none(door: Door, tenant: Tenant) -> None:
    for bad in (tenant.wrong_audience, "eyJhbGciOiJub25lIn0.e30.", tenant.token[:-4] + "AAAA"):
        status, answer = await door.put(tenant, ROWS, token=bad)

        assert (status, "not valid" in answer["error"]) == (401, True)
        assert bad not in answer["error"]


async def test_a_stranger_cannot_tell_what_exists(door: Door, tenant: Tenant) -> None:
    existing = await door.put(tenant, ROWS, token=tenant.stranger)
    absent = await door.put(
        tenant, ROWS, token=tenant.stranger, path=tenant.path(name="never-made")
    )

    assert existing[0] == absent[0] == 403
    assert existing[1]["error"] == absent[1]["error"].replace("never-made", "rows")
    assert "externalartifacts/status" in existing[1]["error"]
    assert await door.storage.usage("ExternalArtifact") == {}


async def test_a_tenant_cannot_upload_to_another_namespace(door: Door, tenant: Tenant) -> None:
    status, _ = await door.put(tenant, ROWS, path="/externalartifact/kube-system/rows/x.tar.gz")

    assert status == 403


async def test_nor_for_another_object_of_its_own(door: Door, tenant: Tenant) -> None:
    assert (await door.put(tenant, ROWS, path=tenant.path(name="other")))[0] == 403


async def test_an_object_that_does_not_exist_gets_no_artifact(door: Door, tenant: Tenant) -> None:
    status, answer = await door.put(tenant, ROWS, path=tenant.path(name="absent"))

    assert (status, "create it" in answer["error"]) == (409, True)


@pytest.mark.parametrize(
    "path",
    [
        "/externalartifact/{ns}/rows/latest.tar.gz",
        "/externalartifact/{ns}/rows/.digest-x.tar.gz",
        "/externalartifact/{ns}/rows/..%2f..%2fx.tar.gz",
        "/externalartifact/{ns}/%2e%2e/x.tar.gz",
        "/externalartifact/{ns}/rows/x.yaml",
        "/externalartifact/{ns}/rows/x%00.tar.gz",
    ],
)
async def test_a_path_that_leads_elsewhere_is_refused(
    door: Door, tenant: Tenant, path: str
) -> None:
    head, body = await raw(door.address, path.format(ns=tenant.namespace), tenant.token, ROWS)

    assert head in (b"HTTP/1.1 400 Bad Request", b"HTTP/1.1 405 Method Not Allowed")
    assert b"Traceback" not in body
    assert await door.storage.usage("ExternalArtifact") == {}


@pytest.mark.parametrize("kind", ["gitrepository", "ExternalArtifact", "helmchart", ""])
async def test_only_external_artifacts_can_be_uploaded(
    door: Door, tenant: Tenant, kind: str
) -> None:
    head, _ = await raw(
        door.address, f"/{kind}/{tenant.namespace}/rows/x.tar.gz", tenant.token, ROWS
    )

    assert head == b"HTTP/1.1 405 Method Not Allowed"


async def raw(address: str, target: str, token: str, body: bytes) -> tuple[bytes, bytes]:
    """Send a request target exactly as it is; return status line and the rest."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [
        f"PUT {target} HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {token}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    head, _, rest = (await reader.read()).partition(b"\r\n")
    writer.close()
    await writer.wait_closed()
    return head, rest


async def test_a_wrong_digest_is_refused(door: Door, tenant: Tenant) -> None:
    other = hashlib.sha256(b"other")
    encoded = base64.b64encode(other.digest()).decode()

    for headers in (
        {"X_Artifact_Digest": f"sha256:{other.hexdigest()}"},
        {"Digest": f"sha-256={encoded}"},
    ):
        status, answer = await door.put(tenant, ROWS, **headers)
        assert (status, "instead of" in answer["error"]) == (400, True)
    assert await door.storage.usage("ExternalArtifact") == {}


async def test_a_right_digest_is_taken(door: Door, tenant: Tenant) -> None:
    right = hashlib.sha512(ROWS)

    for headers in (
        {"X_Artifact_Digest": f"sha512:{right.hexdigest()}"},
        {"Digest": f"sha-512={base64.b64encode(right.digest()).decode()},unixsum=5"},
    ):
        assert (await door.put(tenant, ROWS, **headers))[0] == 201


async def test_a_malformed_digest_is_refused(door: Door, tenant: Tenant) -> None:
    for headers in ({"X_Artifact_Digest": "md5:00"}, {"Digest": "sha-256=!"}):
        assert (await door.put(tenant, ROWS, **headers))[0] == 400


async def pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 65536):
        yield bytes(65536)


async def test_too_large_a_body_is_refused_however_it_is_announced(
    door: Door, tenant: Tenant
) -> None:
    announced = await door.put(tenant, io.BytesIO(random_bytes((1 << 20) + 1)))
    chunked = await door.put(tenant, pieces(2 << 20))

    assert announced[0] == chunked[0] == 413
    assert "larger than 1 MiB" in announced[1]["error"]
    assert door.leftovers() == []


HOSTILE = {
    "points outside": tarball(("../x", b"x")),
    "absolute": tarball(("/etc/x", b"x")),
    "twice": tarball(("x", b"1"), ("x", b"2")),
    "no tarball": b"PK\x03\x04",
    "empty": b"",
    "cut off": ROWS[:-20],
    "cut off by a byte": ROWS[:-1],
    "with something behind it": ROWS + b"x",
    "wrong checksum": ROWS[:-8] + bytes(4) + ROWS[-4:],
    "bomb of entries": gzip.compress(tarfile.TarInfo("d/").tobuf() * 60_000),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
async def test_what_consumers_would_refuse_is_refused(
    door: Door, tenant: Tenant, body: bytes
) -> None:
    status, answer = await door.put(tenant, body)

    assert (status, "consumers could not unpack it" in answer["error"]) == (422, True)
    assert await door.storage.usage("ExternalArtifact") == {}
    assert door.leftovers() == []


async def test_a_bomb_is_refused_before_it_bursts(door: Door, tenant: Tenant) -> None:
    info = tarfile.TarInfo("zeros")
    info.size = 600 << 20
    bomb = gzip.compress(info.tobuf() + bytes(16 << 20), 9)

    status, answer = await door.put(tenant, bomb)

    assert (status, "larger than 512 MiB" in answer["error"]) == (422, True)


async def test_a_dawdler_is_cut_off(door: Door, tenant: Tenant) -> None:
    host, port = door.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"PUT {tenant.path()} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n"
        f"Authorization: Bearer {tenant.token}\r\n\r\n"
    )
    writer.write(head.encode() + b"x")
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()

    assert b"408 Request Timeout" in answer
    assert door.leftovers() == []


async def test_an_upload_that_breaks_off_leaves_nothing(door: Door, tenant: Tenant) -> None:
    host, port = door.address.split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"PUT {tenant.path()} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(ROWS)}\r\n"
        f"Authorization: Bearer {tenant.token}\r\n\r\n"
    )
    writer.write(head.encode() + ROWS[:10])
    async with asyncio.timeout(30):
        while not door.leftovers():  # noqa: ASYNC110  # the server's own state
            await asyncio.sleep(0.01)

    writer.transport.abort()

    async with asyncio.timeout(30):
        while door.leftovers():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await door.storage.usage("ExternalArtifact") == {}


async def test_a_sender_that_asks_first_sends_nothing_in_vain(door: Door, tenant: Tenant) -> None:
    host, port = door.address.split(":")

    async def ask(token: str) -> bytes:
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"PUT {tenant.path()} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(ROWS)}\r\n"
            f"Authorization: Bearer {token}\r\nExpect: 100-continue\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if b"100 Continue" in answer:
            writer.write(ROWS)
            answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return answer

    assert b"403 Forbidden" in await ask(tenant.stranger)
    assert b"201 Created" in await ask(tenant.token)


async def test_encoded_bodies_are_refused(door: Door, tenant: Tenant) -> None:
    status, answer = await door.put(tenant, ROWS, Content_Encoding="gzip")

    assert (status, "Content-Encoding" in answer["error"]) == (400, True)


async def test_a_namespace_has_a_quota(door: Door, tenant: Tenant) -> None:
    large = tarball(padding=900 << 10)
    taken = [
        await door.put(tenant, large, path=tenant.path(f"{number}.tar.gz")) for number in range(4)
    ]

    assert [status for status, _ in taken] == [201, 201, 201, 507]
    assert "wait for the retention" in taken[3][1]["error"]
    used = await door.storage.usage("ExternalArtifact", tenant.namespace)
    assert sum(used.values()) <= SMALL.namespace_bytes


async def test_a_namespace_has_so_many_uploads_a_minute(door: Door, tenant: Tenant) -> None:
    statuses = [(await door.put(tenant, ROWS))[0] for _ in range(9)]

    assert statuses == [201] * 8 + [429]


async def test_what_status_names_outlives_newer_uploads(
    api: Client, serve: Serve, tenant: Tenant, tmp_path: Path
) -> None:
    forgetful = Storage(tmp_path / "root", advertised="x", retention_ttl=0.0, retention_records=1)
    uploads = Uploads(forgetful, access=Access(api), objects=api, scratch=tmp_path / "scratch")
    address = await serve(server.application(forgetful, uploads=uploads))
    async with aiohttp.ClientSession(f"http://{address}") as session:
        door = Door(session=session, storage=forgetful, scratch=tmp_path, address=address)
        _, named = await door.put(tenant, ROWS, path=tenant.path("1.tar.gz"))
        await api.patch(
            KIND,
            "rows",
            tenant.namespace,
            {"status": {"artifact": named}},
            strategy="merge",
            subresource="status",
        )
        for number in range(2, 5):
            await door.put(tenant, ROWS, path=tenant.path(f"{number}.tar.gz"))

    here = tmp_path / "root" / "externalartifact" / tenant.namespace / "rows"
    assert sorted(path.name for path in here.glob("[0-9]*")) == ["1.tar.gz", "4.tar.gz"]


async def test_artifacts_of_objects_that_are_gone_are_removed(
    door: Door, tenant: Tenant, api: Client
) -> None:
    await door.put(tenant, ROWS)

    async def exists(owner: Owner) -> bool:
        try:
            await api.get(KIND, owner.name, owner.namespace)
        except NotFoundError:
            return False
        return True

    assert await orphans.sweep(door.storage, "ExternalArtifact", exists) == ()
    await api.delete(KIND, "rows", tenant.namespace)
    assert await orphans.sweep(door.storage, "ExternalArtifact", exists) == (tenant.owner,)
    assert await door.storage.usage("ExternalArtifact") == {}
