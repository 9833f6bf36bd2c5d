"""Artifacts by kubectl: what is stored, who signed it, what is in it, and who may see what."""

import base64
import contextlib
import gzip
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from multidict import CIMultiDict

from apiserver.artifacts import resource
from apiserver.resources import Row
from crds.meta import VERIFIED, Artifact
from tests.contract.apiserver.conftest import BASE, Window
from tests.fakes.serving import free_port
from toolkit.artifact import index, server
from toolkit.artifact.access import Access
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.index import Indexes
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.objects import Json

SOURCE = "source.toolkit.fluxcd.io/v1"
ROW = Row(
    make=resource.artifacts,
    permissions=resource.PERMISSIONS,
    namespace_permissions=resource.NAMESPACE_PERMISSIONS,
)
SIGNED = {
    VERIFIED: "verified signature of commit 'b' by Ada <ada@acme.example> (SHA256:abc)",
    "verify.penstock.dev/method": "git",
    "verify.penstock.dev/identity": "Ada <ada@acme.example>",
    "verify.penstock.dev/fingerprint": "SHA256:abc",
}
FIRST, SECOND = ("main@sha1:" + digit * 40 for digit in "ab")


@dataclass
class Depot:
    """A real artifact store behind its server, and sources that offer what lies in it."""

    window: Window
    storage: Storage
    address: str
    directory: Path
    runner: web.AppRunner
    partner: int
    """Port of a third party's server, which the operator has named."""

    @property
    def owner(self) -> Owner:
        return Owner(kind="GitRepository", namespace=self.window.namespace, name="web")

    async def store(self, revision: str, files: dict[str, bytes], **metadata: str) -> Artifact:
        """Store a tree as the next artifact of GitRepository ``web``, and offer it."""
        tree = self.directory / f"tree-{revision[-8:]}"
        for name, content in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content)
        artifact = await self.storage.store(
            self.owner,
            revision=revision,
            filename=f"{revision.rpartition(':')[2]}.tar.gz",
            tree=tree,
            ignore=Ignore.from_rules(None),
            metadata=metadata,
        )
        await self.offer("GitRepository", "web", artifact, SPEC)
        return artifact

    async def offer(self, kind: str, name: str, artifact: Artifact | None, spec: Json) -> None:
        obj = made(SOURCE, kind, name, self.window.namespace)
        await self.window.admin.apply(obj | {"spec": spec}, manager="test")
        status = {"artifact": msgspec.to_builtins(artifact)} if artifact else {}
        await self.window.admin.apply(
            obj | {"status": status}, manager="test", subresource="status"
        )

    async def objects(self, *arguments: str) -> dict[str, Json]:
        """Return the artifacts that kubectl finds, by revision."""
        text = await self.window.kubectl("get", "artifacts", "-o", "json", *arguments)
        assert not text.startswith("failed"), text
        return {
            each["spec"].get("revision", ""): each for each in msgspec.json.decode(text)["items"]
        }

    async def known(self, *revisions: str) -> dict[str, Json]:
        """Wait until just these are there."""

        async def look() -> tuple[dict[str, Json], ...]:
            with contextlib.suppress(AssertionError):
                found = await self.objects()
                return (found,) if set(found) == set(revisions) else ()
            return ()

        found: dict[str, Json] = (await self.window.until(look))[0]
        return found

    def path(self, name: str, subresource: str = "") -> str:
        return f"{BASE}/namespaces/{self.window.namespace}/artifacts/{name}{subresource}"

    async def raw(self, name: str, subresource: str, user: str = "") -> str:
        arguments = ("get", "--raw", self.path(name, subresource))
        if user:
            return await self.window.kubectl_as(user, *arguments)
        return await self.window.kubectl(*arguments)


SPEC = {"url": "https://git.example/web", "interval": "1h"}


def made(api_version: str, kind: str, name: str, namespace: str) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


@pytest_asyncio.fixture
async def depot(window: Window, definitions: None, tmp_path: Path) -> AsyncIterator[Depot]:
    del definitions
    port, partner = free_port(), free_port()
    address = f"127.0.0.1:{port}"
    storage = Storage(tmp_path / "root", advertised=address)
    indexes = Indexes(storage, access=Access(window.admin, audience=index.AUDIENCE))
    runner = web.AppRunner(server.application(storage, indexes=indexes), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    found = Depot(window, storage, address, tmp_path, runner, partner)
    await window.start(ROW, storage_adv_addr=address, artifact_hosts=(f"127.0.0.1:{partner}",))
    await window.available()
    yield found
    await runner.cleanup()


async def test_kubectl_shows_current_and_retained_artifacts(depot: Depot) -> None:
    old = await depot.store(FIRST, {"deploy/app.yaml": b"a: 1\n"})
    new = await depot.store(SECOND, {"deploy/app.yaml": b"a: 2\n"}, **SIGNED)

    found = await depot.known(FIRST, SECOND)

    current, retained = found[SECOND], found[FIRST]
    assert current["metadata"]["name"] == f"gitrepository.web.{new.digest[7:19]}"
    assert retained["metadata"]["name"] == f"gitrepository.web.{old.digest[7:19]}"
    assert (current["status"]["current"], retained["status"]["current"]) == (True, False)
    assert current["spec"]["digest"] == new.digest
    assert current["metadata"]["creationTimestamp"] == new.last_update_time
    assert current["status"]["verification"]["signers"] == [
        {"identity": "Ada <ada@acme.example>", "fingerprint": "SHA256:abc"}
    ]
    assert "verification" not in retained["status"]
    assert retained["status"]["stored"] == {
        "backend": "local",
        "path": old.path,
        "url": old.url,
    }
    table = await depot.window.kubectl("get", "art", "-o", "wide")
    header, *lines = table.splitlines()
    assert header.split()[:6] == ["NAME", "SOURCE", "REVISION", "CURRENT", "SIZE", "VERIFIED"]
    assert any("main@sha1:bbbbbbbb " in line and "Ada" in line for line in lines)
    selected = await depot.objects("--field-selector=status.current=false")
    assert set(selected) == {FIRST}
    labelled = await depot.objects("-l", "gitops.penstock.dev/source-name=web")
    assert set(labelled) == {FIRST, SECOND}


async def test_what_the_store_drops_goes(depot: Depot) -> None:
    old = await depot.store(FIRST, {"a": b"1"})
    new = await depot.store(SECOND, {"a": b"2"})
    await depot.known(FIRST, SECOND)

    (depot.storage.root / old.path).unlink()
    await depot.offer("GitRepository", "web", None, SPEC)
    await depot.known()
    await depot.offer("GitRepository", "web", new, SPEC)

    await depot.known(SECOND)


async def test_users_are_told_by_name_within_the_namespace_only(depot: Depot) -> None:
    await depot.store(FIRST, {"a": b"1"})
    namespace = depot.window.namespace
    elsewhere = f"{namespace}-b"
    await depot.window.kubectl("create", "namespace", elsewhere)
    try:
        for where, name in ((namespace, "apps"), (elsewhere, "secret-project")):
            obj = made("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name, where)
            ref = {"kind": "GitRepository", "name": "web", "namespace": namespace}
            spec = {"interval": "1h", "prune": True, "sourceRef": ref}
            await depot.window.admin.apply(obj | {"spec": spec}, manager="test")
            await depot.window.admin.apply(
                obj | {"status": {"lastAppliedRevision": FIRST, "lastAttemptedRevision": FIRST}},
                manager="test",
                subresource="status",
            )

        async def used() -> Json | None:
            status: Json = (await depot.objects())[FIRST]["status"]
            return status if status.get("usedElsewhere") and status.get("usedBy") else None

        await depot.known(FIRST)
        status = await depot.window.until(used)
    finally:
        await depot.window.kubectl("delete", "namespace", elsewhere, "--wait=false")

    assert [(user["name"], user["state"]) for user in status["usedBy"]] == [("apps", "Applied")]
    assert status["usedElsewhere"] == 1
    assert "secret-project" not in str(status)


async def test_content_is_the_file(depot: Depot) -> None:
    artifact = await depot.store(FIRST, {"a": b"1"})
    (found,) = (await depot.known(FIRST)).values()
    name = found["metadata"]["name"]
    path = depot.path(name, "/content")
    admin = depot.window.client_of("root", groups=("system:masters",))

    whole = await depot.window.ask(path, certificate=admin)
    part = await depot.window.ask(path, certificate=admin, headers={"Range": "bytes=3-9"})
    beyond = await depot.window.ask(path, certificate=admin, headers={"Range": "bytes=999999-"})
    same = await depot.window.ask(
        path, certificate=admin, headers={"If-None-Match": f'"{artifact.digest}"'}
    )
    head = await depot.window.ask(path, certificate=admin, method="HEAD")

    stored = (depot.storage.root / artifact.path).read_bytes()
    digest = hashlib.sha256(stored).digest()
    assert (whole.status, whole.body) == (200, stored)
    headers = CIMultiDict(whole.headers)
    assert headers["ETag"] == f'"{artifact.digest}"'
    assert headers["Repr-Digest"] == f"sha-256=:{base64.b64encode(digest).decode()}:"
    assert headers["Content-Type"] == "application/gzip"
    assert "attachment" in headers["Content-Disposition"]
    assert (part.status, part.body) == (206, stored[3:10])
    assert part.headers["Content-Range"] == f"bytes 3-9/{len(stored)}"
    assert (beyond.status, same.status) == (416, 304)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(stored))


async def test_files_are_listed_and_shown(depot: Depot) -> None:
    page = b"<script>alert(1)</script>"
    await depot.store(FIRST, {"deploy/app.yaml": b"a: 1\n", "page.html": page, "bin": b"\xff\x00"})
    (found,) = (await depot.known(FIRST)).values()
    name = found["metadata"]["name"]

    listed = msgspec.json.decode(await depot.raw(name, "/files"))
    text = await depot.raw(name, "/files?path=deploy/app.yaml")
    admin = depot.window.client_of("root", groups=("system:masters",))
    html = await depot.window.ask(depot.path(name, "/files?path=page.html"), certificate=admin)
    binary = await depot.window.ask(depot.path(name, "/files?path=bin"), certificate=admin)

    assert [(file["path"], file["size"]) for file in listed["files"]] == [
        ("bin", 2),
        ("deploy/app.yaml", 5),
        ("page.html", len(page)),
    ]
    assert listed["files"][1]["sha256"] == hashlib.sha256(b"a: 1\n").hexdigest()
    assert listed["files"][1]["mode"] == "0600"
    assert text == "a: 1\n"
    assert html.body == page
    assert html.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert html.headers["X-Content-Type-Options"] == "nosniff"
    assert (binary.headers["Content-Type"], binary.body) == (
        "application/octet-stream",
        b"\xff\x00",
    )
    for path in ("../../etc/passwd", "/etc/passwd", "deploy", "", "nothing"):
        assert "has no file" in await depot.raw(name, f"/files?path={path}")
    assert "is not known" in await depot.raw(name, "/files?paht=x")


async def test_two_revisions_are_compared(depot: Depot) -> None:
    await depot.store(FIRST, {"same": b"1", "changed": b"1", "removed": b"1"})
    await depot.store(SECOND, {"same": b"1", "changed": b"22", "added": b"token: s3cr3t"})
    found = await depot.known(FIRST, SECOND)
    name = found[SECOND]["metadata"]["name"]

    answers = [
        await depot.raw(name, f"/diff?from={wanted}")
        for wanted in (
            FIRST,
            found[FIRST]["metadata"]["name"],
            found[FIRST]["spec"]["digest"],
        )
    ]

    told = msgspec.json.decode(answers[0])
    assert [(each["path"], each["change"]) for each in told["files"]] == [
        ("added", "Added"),
        ("changed", "Modified"),
        ("removed", "Removed"),
    ]
    assert (told["added"], told["removed"], told["modified"]) == (1, 1, 1)
    assert told["files"][1]["before"]["size"] == 1
    assert told["files"][1]["after"]["size"] == 2
    assert "s3cr3t" not in answers[0]
    assert [msgspec.json.decode(each) for each in answers[1:]] == [told, told]
    assert "has no artifact" in await depot.raw(name, "/diff?from=main@sha1:none")
    assert FIRST in await depot.raw(name, "/diff")


async def test_every_part_is_a_right_of_its_own(depot: Depot) -> None:
    await depot.store(FIRST, {"a": b"1"})
    (found,) = (await depot.known(FIRST)).values()
    name, namespace = found["metadata"]["name"], depot.window.namespace
    verbs = ["get", "list", "watch"]
    rule = {"apiGroups": ["gitops.penstock.dev"], "resources": ["artifacts"], "verbs": verbs}
    await depot.window.grant("viewer", rule, namespace=namespace)

    async def may() -> bool:
        return name in await depot.window.kubectl_as("viewer", "get", "artifacts")

    await depot.window.until(may)

    for part in ("content", "files", "diff"):
        answer = await depot.raw(name, f"/{part}", "viewer")
        assert f'cannot get resource "artifacts/{part}"' in answer
    elsewhere = await depot.window.kubectl_as("viewer", "get", "artifacts", "-A")
    assert "cannot list" in elsewhere


async def test_no_status_leads_us_astray(depot: Depot) -> None:
    """The status of an ExternalArtifact is a tenant's; the address that it names is not asked."""
    asked: list[str] = []

    async def trap(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=b"internal")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", trap)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    victim = await depot.store(FIRST, {"a": b"secret"})
    digest = f"sha256:{hashlib.sha256(b'internal').hexdigest()}"
    urls = {
        "elsewhere": f"http://127.0.0.1:{port}/x.tar.gz",
        "name": f"http://localhost:{port}/x.tar.gz",
        "userinfo": f"http://{depot.address}@127.0.0.1:{port}/x.tar.gz",
        "metadata": "http://169.254.169.254/latest/meta-data",
        "query": f"http://{depot.address}/x.tar.gz?x=1",
    }
    try:
        for name, url in urls.items():
            await depot.offer("ExternalArtifact", name, forged(url, digest), {})
        await depot.offer("ExternalArtifact", "thief", forged(victim.url, victim.digest), {})
        await depot.known(FIRST, "forged")

        async def whole() -> list[Json]:
            listed = msgspec.json.decode(await depot.window.kubectl("get", "art", "-o", "json"))
            sources = {each["spec"]["sourceRef"]["name"] for each in listed["items"]}
            return listed["items"] if sources >= {*urls, "thief"} else []

        listed: list[Json] = await depot.window.until(whole)
        found = {each["spec"]["sourceRef"]["name"]: each["metadata"]["name"] for each in listed}
        answers = {
            name: [await depot.raw(found[name], part) for part in ("/content", "/files")]
            for name in (*urls, "thief")
        }
    finally:
        await runner.cleanup()

    assert asked == []
    for name, texts in answers.items():
        for text in texts:
            assert text.startswith("failed"), (name, text)
            assert "Forbidden" in text, (name, text)
            assert "secret" not in text
    assert f"127.0.0.1:{port}" in answers["elsewhere"][0]
    assert "--artifact-hosts" in answers["elsewhere"][0]
    assert all("verification" not in each["status"] for each in listed)


async def test_a_third_partys_server_is_asked_for_files_without_a_token(depot: Depot) -> None:
    body = bomb(("a", tarfile.REGTYPE, b"theirs"))
    asked: list[tuple[str, str]] = []

    async def serve(request: web.Request) -> web.Response:
        asked.append((request.path, request.headers.get("Authorization", "")))
        return web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", depot.partner).start()
    try:
        url = f"http://127.0.0.1:{depot.partner}/any/where.tar.gz"
        artifact = forged(url, f"sha256:{hashlib.sha256(body).hexdigest()}")
        await depot.offer("ExternalArtifact", "rows", artifact, {})
        (found,) = (await depot.known("forged")).values()
        text = await depot.raw(found["metadata"]["name"], "/files?path=a")
    finally:
        await runner.cleanup()

    assert text == "theirs"
    assert found["status"]["stored"]["backend"] == "external"
    assert asked == [("/any/where.tar.gz", "")]


def forged(url: str, digest: str) -> Artifact:
    return Artifact(
        digest=digest,
        last_update_time="2026-01-01T00:00:00Z",
        path="externalartifact/x/y/x.tar.gz",
        revision="forged",
        url=url,
        size=8,
        metadata={VERIFIED: "the pope himself", "verify.penstock.dev/identity": "the pope"},
    )


async def test_a_status_that_nobody_can_read_costs_nobody_the_list(depot: Depot) -> None:
    digest = f"sha256:{'a' * 64}"
    strange = msgspec.structs.replace(
        forged("http://[", digest), path="", last_update_time="2026-01-01t00:00:00zTgarbage"
    )
    await depot.offer("ExternalArtifact", "evil", strange, {})
    await depot.store(FIRST, {"a": b"1"})

    found = await depot.known(FIRST, "forged")

    evil = found["forged"]
    assert evil["status"]["stored"]["url"] == ""
    assert evil["metadata"]["creationTimestamp"] is None
    table = await depot.window.kubectl("get", "artifacts", "-A", "-o", "wide")
    assert evil["metadata"]["name"] in table
    assert found[FIRST]["metadata"]["name"] in table
    depot.window.raise_failures()


async def test_a_dead_artifact_server_costs_content_not_the_list(depot: Depot) -> None:
    await depot.store(FIRST, {"a": b"1"})
    await depot.store(SECOND, {"a": b"2"})
    found = await depot.known(FIRST, SECOND)
    await depot.runner.cleanup()

    listed = await depot.objects()
    answers = [
        await depot.raw(found[SECOND]["metadata"]["name"], part)
        for part in ("/content", "/files", f"/diff?from={FIRST}")
    ]

    assert set(listed) == {FIRST, SECOND}
    for answer in answers:
        assert "ServiceUnavailable" in answer
        assert "cannot fetch artifact" in answer


async def test_damage_never_looks_like_an_artifact(depot: Depot, window: Window) -> None:
    """A server that sends other bytes than were stored, of the right length."""
    body = gzip.compress(b"x" * 100)

    async def lie(_: web.Request) -> web.Response:
        return web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", lie)
    runner = web.AppRunner(app, access_log=None)
    await depot.runner.cleanup()
    await runner.setup()
    host, _, port = depot.address.partition(":")
    await web.TCPSite(runner, host, int(port)).start()
    owner = depot.owner.path
    artifact = Artifact(
        digest="sha256:" + "0" * 64,
        last_update_time="2026-01-01T00:00:00Z",
        path=f"{owner}/x.tar.gz",
        revision=FIRST,
        url=f"http://{depot.address}/{owner}/x.tar.gz",
        size=len(body),
    )
    try:
        await depot.offer("GitRepository", "web", artifact, SPEC)
        (found,) = (await depot.known(FIRST)).values()
        path = depot.path(found["metadata"]["name"], "/content")
        admin = window.client_of("root", groups=("system:masters",))
        with pytest.raises(aiohttp.ClientError):
            await window.ask(path, certificate=admin)
        part = await window.ask(path, certificate=admin, headers={"Range": "bytes=0-3"})
        listing = await depot.raw(found["metadata"]["name"], "/files")
    finally:
        await runner.cleanup()

    assert part.status == 503
    assert "digest is wrong" in listing


def bomb(*members: tuple[str, bytes, bytes]) -> bytes:
    """Return a tarball; a member is its name, its type and its content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(content), "/etc/passwd"
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (bomb(("../../evil", tarfile.REGTYPE, b"x")), "leads out"),
        (bomb(("a", tarfile.REGTYPE, b"1"), ("a", tarfile.REGTYPE, b"2")), "occurs twice"),
        (bomb(("dev", tarfile.CHRTYPE, b"")), "not allowed"),
        (b"no tarball at all", "not a readable tarball"),
        (gzip.compress(bytes(1 << 20))[:-100], "not a readable tarball"),
    ],
    # What is compressed has its time in it, which differs from worker to worker.
    ids=["path", "twice", "device", "no tarball", "truncated"],
)
async def test_hostile_tarballs_are_refused(depot: Depot, content: bytes, told: str) -> None:
    file = depot.directory / "file"
    file.write_bytes(content)
    artifact = await depot.storage.store_file(
        depot.owner, revision=FIRST, filename="x.tar.gz", file=file
    )
    await depot.offer("GitRepository", "web", artifact, SPEC)
    (found,) = (await depot.known(FIRST)).values()

    answer = await depot.raw(found["metadata"]["name"], "/files")

    assert told in answer


async def test_what_is_too_large_is_not_looked_into(depot: Depot) -> None:
    path = f"{depot.owner.path}/x.tar.gz"
    artifact = Artifact(
        digest="sha256:" + "0" * 64,
        last_update_time="2026-01-01T00:00:00Z",
        path=path,
        revision=FIRST,
        url=f"http://{depot.address}/{path}",
        size=300 << 20,
    )
    await depot.offer("GitRepository", "web", artifact, SPEC)
    (found,) = (await depot.known(FIRST)).values()

    answer = await depot.raw(found["metadata"]["name"], "/files")

    assert "is larger than 256 MiB" in answer


async def test_links_are_no_files(depot: Depot) -> None:
    file = depot.directory / "file"
    file.write_bytes(bomb(("passwd", tarfile.SYMTYPE, b""), ("a", tarfile.REGTYPE, b"1")))
    artifact = await depot.storage.store_file(
        depot.owner, revision=FIRST, filename="x.tar.gz", file=file
    )
    await depot.offer("GitRepository", "web", artifact, SPEC)
    (found,) = (await depot.known(FIRST)).values()
    name = found["metadata"]["name"]

    listed = msgspec.json.decode(await depot.raw(name, "/files"))

    assert [each["path"] for each in listed["files"]] == ["a"]
    assert "has no file" in await depot.raw(name, "/files?path=passwd")


async def test_an_index_of_charts_is_compared_by_version(depot: Depot) -> None:
    owner = Owner(kind="HelmRepository", namespace=depot.window.namespace, name="charts")
    names = []
    for revision, versions in (
        ("sha256:1", {"1.0.0": "a", "2.0.0": "b"}),
        ("sha256:2", {"2.0.0": "c", "3.0.0": "d"}),
    ):
        entries = {"app": [{"name": "app", "version": v, "digest": d} for v, d in versions.items()]}
        file = depot.directory / "index"
        file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "entries": entries}))
        artifact = await depot.storage.store_file(
            owner, revision=revision, filename=f"index-{revision[7:]}.yaml", file=file
        )
        await depot.offer("HelmRepository", "charts", artifact, {"url": "https://charts.example"})
        names.append(artifact.digest)
    found = await depot.known("sha256:1", "sha256:2")
    name = found["sha256:2"]["metadata"]["name"]

    told = msgspec.json.decode(await depot.raw(name, "/diff?from=sha256:1"))
    listed = msgspec.json.decode(await depot.raw(name, "/files"))

    assert [(each["version"], each["change"]) for each in told["charts"]] == [
        ("1.0.0", "Removed"),
        ("2.0.0", "Modified"),
        ("3.0.0", "Added"),
    ]
    assert [each["path"] for each in listed["files"]] == ["index.yaml"]


async def test_kubectl_explains_artifacts(depot: Depot) -> None:
    async def explained() -> str:
        text = await depot.window.kubectl("explain", "artifacts.status.verification.signers")
        return "" if text.startswith("failed") else text

    text: str = await depot.window.until(explained)

    assert "Fingerprint of the key" in text
