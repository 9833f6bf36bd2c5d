"""Artifacts: what is stored, who signed it, what is in it, and who may see what.

Lists go through the API server. What is in an artifact is asked at our own port, but where kubectl
shows that the API server passes it on.
"""

import base64
import gzip
import hashlib
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from multidict import CIMultiDict

from crds.meta import VERIFIED, Artifact
from tests.contract.apiserver.depot import (
    KINDS,
    ROW,
    SPEC,
    Depot,
    Server,
    bomb,
    digest_of,
    forged,
    made,
)
from tests.contract.apiserver.window import BASE, Window, make_namespace
from tests.fakes.serving import free_port, serving
from toolkit.artifact import index, server
from toolkit.artifact.access import Access
from toolkit.artifact.index import Indexes
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIGNED = {
    VERIFIED: "verified signature of commit 'b' by Ada <ada@acme.example> (SHA256:abc)",
    "verify.penstock.dev/method": "git",
    "verify.penstock.dev/identity": "Ada <ada@acme.example>",
    "verify.penstock.dev/fingerprint": "SHA256:abc",
}
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
FIRST, SECOND = ("main@sha1:" + digit * 40 for digit in "ab")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_depot(
    module_window: Window, definitions: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Depot]:
    """Run a store and a process that serves artifacts, for the module."""
    del definitions
    directory, partner = tmp_path_factory.mktemp("depot"), free_port()
    port = free_port()
    storage = Storage(directory / "root", advertised=f"127.0.0.1:{port}")

    def application() -> web.Application:
        access = Access(module_window.admin, audience=index.AUDIENCE)
        return server.application(storage, indexes=Indexes(storage, access=access))

    served = Server(application, port)
    await served.start()
    await module_window.start(
        ROW, storage_adv_addr=served.address, artifact_hosts=(f"127.0.0.1:{partner}",)
    )
    await module_window.available()
    yield Depot(module_window, storage, served, directory, partner)
    await served.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def depot(module_depot: Depot, namespace: str, tmp_path: Path) -> AsyncIterator[Depot]:
    """Give the module's store, for sources in the test's own namespace."""
    window = replace(module_depot.window, namespace=namespace)
    yield replace(module_depot, window=window, directory=tmp_path)
    await window.sweep(*KINDS)


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
    names = {f"artifact.gitops.penstock.dev/{each['metadata']['name']}" for each in found.values()}
    only = ("get", "artifacts", "-o", "name")
    selected = await depot.window.kubectl(*only, "--field-selector=status.current=false")
    assert selected.split() == [f"artifact.gitops.penstock.dev/{retained['metadata']['name']}"]
    labelled = await depot.window.kubectl(*only, "-l", "gitops.penstock.dev/source-name=web")
    assert set(labelled.split()) == names


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
    window, namespace = depot.window, depot.window.namespace
    neighbour = replace(window, namespace=await make_namespace(window.admin, f"{namespace}-b"))
    for where, name in ((namespace, "apps"), (neighbour.namespace, "secret-project")):
        obj = made(KUSTOMIZATION.api_version, KUSTOMIZATION.kind, name, where)
        ref = {"kind": "GitRepository", "name": "web", "namespace": namespace}
        spec = {"interval": "1h", "prune": True, "sourceRef": ref}
        await window.admin.apply(obj | {"spec": spec}, manager="test")
        await window.admin.apply(
            obj | {"status": {"lastAppliedRevision": FIRST, "lastAttemptedRevision": FIRST}},
            manager="test",
            subresource="status",
        )

    async def used() -> Json | None:
        (found,) = await depot.listed()
        status: Json = found["status"]
        return status if status.get("usedElsewhere") and status.get("usedBy") else None

    await depot.known(FIRST)
    status = await window.until(used)
    for each in (window, neighbour):
        await each.sweep(KUSTOMIZATION)

    assert [(user["name"], user["state"]) for user in status["usedBy"]] == [("apps", "Applied")]
    assert status["usedElsewhere"] == 1
    assert "secret-project" not in str(status)


async def test_content_is_the_file(depot: Depot) -> None:
    artifact = await depot.store(FIRST, {"a": b"1"})
    name = await depot.stored(FIRST)

    whole = await depot.ask(name, "/content")
    part = await depot.ask(name, "/content", headers={"Range": "bytes=3-9"})
    beyond = await depot.ask(name, "/content", headers={"Range": "bytes=999999-"})
    same = await depot.ask(name, "/content", headers={"If-None-Match": f'"{artifact.digest}"'})
    head = await depot.ask(name, "/content", method="HEAD")

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
    name = await depot.stored(FIRST)

    listed = msgspec.json.decode(await depot.raw(name, "/files"))
    text = await depot.raw(name, "/files?path=deploy/app.yaml")
    html = await depot.ask(name, "/files?path=page.html")
    binary = await depot.ask(name, "/files?path=bin")

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
        assert "has no file" in (await depot.refusal(name, f"/files?path={path}"))["message"]
    assert "is not known" in (await depot.refusal(name, "/files?paht=x"))["message"]


async def test_two_revisions_are_compared(depot: Depot) -> None:
    await depot.store(FIRST, {"same": b"1", "changed": b"1", "removed": b"1"})
    await depot.store(SECOND, {"same": b"1", "changed": b"22", "added": b"token: s3cr3t"})
    found = await depot.known(FIRST, SECOND)
    name = found[SECOND]["metadata"]["name"]

    shown = await depot.raw(name, f"/diff?from={FIRST}")
    others = [
        await depot.ask(name, f"/diff?from={wanted}")
        for wanted in (found[FIRST]["metadata"]["name"], found[FIRST]["spec"]["digest"])
    ]

    told = msgspec.json.decode(shown)
    assert [(each["path"], each["change"]) for each in told["files"]] == [
        ("added", "Added"),
        ("changed", "Modified"),
        ("removed", "Removed"),
    ]
    assert (told["added"], told["removed"], told["modified"]) == (1, 1, 1)
    assert told["files"][1]["before"]["size"] == 1
    assert told["files"][1]["after"]["size"] == 2
    assert "s3cr3t" not in shown
    assert [each.json for each in others] == [told, told]
    unknown = await depot.refusal(name, "/diff?from=main@sha1:none")
    assert "has no artifact" in unknown["message"]
    assert FIRST in (await depot.refusal(name, "/diff"))["message"]


async def test_every_part_is_a_right_of_its_own(depot: Depot) -> None:
    await depot.store(FIRST, {"a": b"1"})
    name = await depot.stored(FIRST)
    verbs = ["get", "list", "watch"]
    rule = {"apiGroups": ["gitops.penstock.dev"], "resources": ["artifacts"], "verbs": verbs}
    await depot.window.grant("viewer", rule, namespace=depot.window.namespace)
    viewer = depot.window.client_of("viewer")

    shown = await depot.ask(name, "", certificate=viewer)
    parts = [
        await depot.ask(name, f"/{part}", certificate=viewer)
        for part in ("content", "files", "diff")
    ]
    elsewhere = await depot.window.ask(f"{BASE}/artifacts", certificate=viewer)

    assert (shown.status, shown.json["metadata"]["name"]) == (200, name)
    assert [reply.status for reply in parts] == [403] * 3
    for part, reply in zip(("content", "files", "diff"), parts, strict=True):
        assert f'cannot get resource "artifacts/{part}"' in reply.json["message"]
    assert (elsewhere.status, "cannot list" in elsewhere.json["message"]) == (403, True)


async def test_no_status_leads_us_astray(depot: Depot) -> None:
    """The status of an ExternalArtifact is a tenant's; the address that it names is not asked."""
    asked: list[str] = []

    async def trap(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=b"internal")

    victim = await depot.store(FIRST, {"a": b"secret"})
    digest = digest_of(b"internal")
    async with serving(trap) as port:
        urls = {
            "elsewhere": f"http://127.0.0.1:{port}/x.tar.gz",
            "name": f"http://localhost:{port}/x.tar.gz",
            "userinfo": f"http://{depot.server.address}@127.0.0.1:{port}/x.tar.gz",
            "metadata": "http://169.254.169.254/latest/meta-data",
            "query": f"http://{depot.server.address}/x.tar.gz?x=1",
        }
        for name, url in urls.items():
            await depot.offer("ExternalArtifact", name, forged(url, digest), {})
        await depot.offer("ExternalArtifact", "thief", forged(victim.url, victim.digest), {})

        async def whole() -> list[Json]:
            found = await depot.listed()
            sources = {each["spec"]["sourceRef"]["name"] for each in found}
            return found if sources == {*urls, "thief", "web"} else []

        listed: list[Json] = await depot.window.until(whole)
        found = {each["spec"]["sourceRef"]["name"]: each["metadata"]["name"] for each in listed}
        answers = {
            name: [await depot.refusal(found[name], part) for part in ("/content", "/files")]
            for name in (*urls, "thief")
        }
        shown = await depot.window.refused("get", "--raw", depot.path(found["name"], "/content"))

    assert asked == []
    for name, refusals in answers.items():
        for refusal in refusals:
            assert refusal["reason"] == "Forbidden", (name, refusal)
            assert "secret" not in str(refusal)
    assert f"127.0.0.1:{port}" in answers["elsewhere"][0]["message"]
    assert "--artifact-hosts" in answers["elsewhere"][0]["message"]
    assert "Forbidden" in shown
    forgeries = [each for each in listed if each["spec"]["sourceRef"]["name"] != "web"]
    assert all("verification" not in each["status"] for each in forgeries)


async def test_a_third_partys_server_is_asked_for_files_without_a_token(depot: Depot) -> None:
    body = bomb(("a", tarfile.REGTYPE, b"theirs"))
    asked: list[tuple[str, str]] = []

    async def serve(request: web.Request) -> web.Response:
        asked.append((request.path, request.headers.get("Authorization", "")))
        return web.Response(body=body)

    url = f"http://127.0.0.1:{depot.partner}/any/where.tar.gz"
    async with serving(serve, port=depot.partner):
        await depot.offer("ExternalArtifact", "rows", forged(url, digest_of(body)), {})
        (found,) = (await depot.known("forged")).values()
        reply = await depot.ask(found["metadata"]["name"], "/files?path=a")

    assert reply.body == b"theirs"
    assert found["status"]["stored"]["backend"] == "external"
    assert asked == [("/any/where.tar.gz", "")]


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
    mine = depot.window.namespace.encode()  # nobody has fetched these before
    await depot.store(FIRST, {"a": mine + b"1"})
    await depot.store(SECOND, {"a": mine + b"2"})
    found = await depot.known(FIRST, SECOND)
    name = found[SECOND]["metadata"]["name"]

    async with depot.server.away():
        listed = await depot.listed()
        refusals = [
            await depot.refusal(name, part)
            for part in ("/content", "/files", f"/diff?from={FIRST}")
        ]

    assert {each["spec"]["revision"] for each in listed} == {FIRST, SECOND}
    for refusal in refusals:
        assert refusal["reason"] == "ServiceUnavailable"
        assert "cannot fetch artifact" in refusal["message"]


async def test_damage_never_looks_like_an_artifact(depot: Depot) -> None:
    """A server that sends other bytes than were stored, of the right length."""
    body = gzip.compress(b"x" * 100)

    async def lie(_: web.Request) -> web.Response:
        return web.Response(body=body)

    owner = depot.owner.path
    artifact = Artifact(
        digest="sha256:" + "0" * 64,
        last_update_time="2026-01-01T00:00:00Z",
        path=f"{owner}/x.tar.gz",
        revision=FIRST,
        url=f"http://{depot.server.address}/{owner}/x.tar.gz",
        size=len(body),
    )
    async with depot.server.replaced(lie):
        await depot.offer("GitRepository", "web", artifact, SPEC)
        name = await depot.stored(FIRST)
        with pytest.raises(aiohttp.ClientError):
            await depot.ask(name, "/content")
        part = await depot.ask(name, "/content", headers={"Range": "bytes=0-3"})
        listing = await depot.refusal(name, "/files")

    assert part.status == 503
    assert "digest is wrong" in listing["message"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (bomb(("../../evil", tarfile.REGTYPE, b"x")), "points outside"),
        (bomb(("a", tarfile.REGTYPE, b"1"), ("a", tarfile.REGTYPE, b"2")), "occurs twice"),
        (bomb(("dev", tarfile.CHRTYPE, b"")), "not allowed"),
        (b"no tarball at all", "not a readable tarball"),
        (gzip.compress(bytes(1 << 20))[:-100], "not a readable tarball"),
    ],
    ids=["path", "twice", "device", "no-gzip", "cut"],  # workers of a run must agree on names
)
async def test_hostile_tarballs_are_refused(depot: Depot, content: bytes, told: str) -> None:
    await depot.store_file(FIRST, content)

    refusal = await depot.refusal(await depot.stored(FIRST), "/files")

    assert told in refusal["message"]


async def test_what_is_too_large_is_not_looked_into(depot: Depot) -> None:
    path = f"{depot.owner.path}/x.tar.gz"
    artifact = Artifact(
        digest="sha256:" + "0" * 64,
        last_update_time="2026-01-01T00:00:00Z",
        path=path,
        revision=FIRST,
        url=f"http://{depot.server.address}/{path}",
        size=300 << 20,
    )
    await depot.offer("GitRepository", "web", artifact, SPEC)

    refusal = await depot.refusal(await depot.stored(FIRST), "/files")

    assert "is larger than 256 MiB" in refusal["message"]


async def test_links_are_no_files(depot: Depot) -> None:
    await depot.store_file(
        FIRST, bomb(("passwd", tarfile.SYMTYPE, b""), ("a", tarfile.REGTYPE, b"1"))
    )
    name = await depot.stored(FIRST)

    listed = await depot.ask(name, "/files")
    link = await depot.refusal(name, "/files?path=passwd")

    assert [each["path"] for each in listed.json["files"]] == ["a"]
    assert "has no file" in link["message"]


async def test_an_index_of_charts_is_compared_by_version(depot: Depot) -> None:
    owner = Owner(kind="HelmRepository", namespace=depot.window.namespace, name="charts")
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
    found = await depot.known("sha256:1", "sha256:2")
    name = found["sha256:2"]["metadata"]["name"]

    told = await depot.ask(name, "/diff?from=sha256:1")
    listed = await depot.ask(name, "/files")

    assert [(each["version"], each["change"]) for each in told.json["charts"]] == [
        ("1.0.0", "Removed"),
        ("2.0.0", "Modified"),
        ("3.0.0", "Added"),
    ]
    assert [each["path"] for each in listed.json["files"]] == ["index.yaml"]


async def test_kubectl_explains_artifacts(depot: Depot) -> None:
    async def explained() -> str:
        text = await depot.window.answer("explain", "artifacts.status.verification.signers")
        return "" if text.startswith("failed") else text

    text: str = await depot.window.until(explained)

    assert "Fingerprint of the key" in text
