"""What a registry tells, and what of it is believed."""

import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest
from aiohttp import web

from tests.fakes.registry import OCI_INDEX, FakeRegistry
from tests.loopback.oci.bench import NAME, PLAIN
from toolkit.remote.http.http import Http
from toolkit.remote.oci import oci
from toolkit.remote.oci import registry as ociregistry
from toolkit.remote.oci.oci import Descriptor, Repository
from toolkit.remote.oci.registry import Registry, RegistryError, RegistryNotFoundError

LIMIT = 1 << 20


def layer(server: FakeRegistry, data: bytes) -> Descriptor:
    blob = server.put_blob(data)
    return Descriptor(media_type=blob["mediaType"], digest=blob["digest"], size=blob["size"])


async def test_tag_is_resolved_with_one_head(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])

    found = await registry.resolve(repository, "v1")

    assert (found.digest, found.size) == (pushed["digest"], pushed["size"])
    assert found.media_type == oci.OCI_MANIFEST
    assert server.counts == {"HEAD manifests": 1}


@pytest.mark.parametrize("header", ["", "sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e"])
async def test_digest_is_computed_where_the_registry_tells_none(
    server: FakeRegistry, registry: Registry, repository: Repository, header: str
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    server.faults.digest_header = header

    found = await registry.resolve(repository, "v1")

    assert (found.digest, found.size) == (pushed["digest"], pushed["size"])


async def test_registry_without_head_is_asked_with_get(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    server.faults.statuses.append(("manifests", 405, {}))

    found = await registry.resolve(repository, "v1")

    assert found.digest == pushed["digest"]


async def test_other_digest_for_a_digest_is_refused(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    asked, other = server.push(NAME, "v1", [b"1"]), server.push(NAME, "v2", [b"2"])
    server.faults.digest_header = other["digest"]

    with pytest.raises(RegistryError, match="answers with"):
        await registry.resolve(repository, asked["digest"])


async def test_other_manifest_for_a_digest_is_refused(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    asked, other = server.push(NAME, "v1", [b"1"]), server.push(NAME, "v2", [b"2"])
    server.faults.content[asked["digest"]] = server.manifests[NAME, other["digest"]][1]

    with pytest.raises(RegistryError, match="it has the digest"):
        await registry.manifest(repository, asked["digest"])


async def test_manifest_with_another_algorithm_is_checked_with_that(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    raw = server.manifests[NAME, pushed["digest"]][1]
    digest = f"sha512:{hashlib.sha512(raw).hexdigest()}"
    server.manifests[NAME, digest] = (oci.OCI_MANIFEST, raw)

    found = await registry.manifest(repository, digest)

    assert found.descriptor.digest == digest


async def test_manifest_of_ten_megabytes_is_refused(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    raw = json.dumps({"schemaVersion": 2, "layers": [], "annotations": {"a": "x" * (10 << 20)}})
    pushed = server.put_manifest(NAME, raw.encode(), tag="v1")

    with pytest.raises(RegistryError, match="more than 4194304 bytes"):
        await registry.manifest(repository, pushed["digest"])


async def test_endless_manifest_is_cut_off(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    server.faults.endless = "manifests"

    with pytest.raises(RegistryError, match="more than 4194304 bytes"):
        await registry.manifest(repository, pushed["digest"])


async def test_unknown_tag_is_not_found(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    server.push(NAME, "v1", [b"layer"])

    with pytest.raises(RegistryNotFoundError, match=r"'v2' of 'localhost:.*/team/app' not found"):
        await registry.resolve(repository, "v2")


@pytest.mark.parametrize("reference", ["../v1", "a b", "", "v1\r\nX: 1", "sha256:abc", "é"])
async def test_reference_that_is_none_is_not_asked_for(
    server: FakeRegistry, registry: Registry, repository: Repository, reference: str
) -> None:
    with pytest.raises(RegistryError, match="neither a tag nor a digest"):
        await registry.resolve(repository, reference)

    assert server.seen == []


async def test_blob_is_written_as_it_is(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 20_000
    blob = layer(server, data)

    await registry.blob(repository, blob, tmp_path / "blob", limit=len(data))

    assert (tmp_path / "blob").read_bytes() == data
    assert await registry.read_blob(repository, blob, limit=len(data)) == data


async def test_blob_is_never_whole_in_memory(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    piece, pieces = bytes(1 << 18), 256
    digest = hashlib.sha256()
    for _ in range(pieces):
        digest.update(piece)
    size = len(piece) * pieces
    blob = Descriptor(media_type="", digest=f"sha256:{digest.hexdigest()}", size=size)

    async def in_pieces(request: web.Request, _: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(size)})
        await response.prepare(request)
        for _ in range(pieces):
            await response.write(piece)
        return response

    server.faults.hook = in_pieces
    tracemalloc.start()
    try:
        await registry.blob(repository, blob, tmp_path / "blob", limit=size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (tmp_path / "blob").stat().st_size == size
    assert peak < size // 4


async def refused(registry: Registry, repository: Repository, blob: Descriptor, path: Path) -> str:
    """Require that neither way of reading a blob believes it, and leaves nothing behind."""
    with pytest.raises(RegistryError) as first:
        await registry.read_blob(repository, blob, limit=LIMIT)
    with pytest.raises(RegistryError) as second:
        await registry.blob(repository, blob, path, limit=LIMIT)
    assert not path.exists()  # noqa: ASYNC240  # a test may wait for its disk
    assert str(first.value) == str(second.value)
    return str(first.value)


async def test_truncated_blob_is_refused(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    blob = layer(server, b"x" * 1000)
    server.faults.truncate = True

    await refused(registry, repository, blob, tmp_path / "blob")


async def test_blob_that_ends_early_is_refused(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    blob = layer(server, b"x" * 1000)
    server.faults.content[blob.digest] = b"x" * 999

    said = await refused(registry, repository, blob, tmp_path / "blob")

    assert "ends after 999 of 1000 bytes" in said


async def test_blob_with_another_digest_is_refused(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    blob = layer(server, b"x" * 1000)
    server.faults.content[blob.digest] = b"y" * 1000

    said = await refused(registry, repository, blob, tmp_path / "blob")

    assert "it has the digest sha256:" in said


async def test_endless_blob_is_cut_off_where_it_should_end(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    blob = layer(server, b"x" * 1000)
    server.faults.endless = "blobs"

    said = await refused(registry, repository, blob, tmp_path / "blob")

    assert "longer than the 1000 bytes" in said


async def test_blob_that_is_too_large_is_not_asked_for(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    blob = Descriptor(media_type="", digest=f"sha256:{'0' * 64}", size=LIMIT + 1)

    said = await refused(registry, repository, blob, tmp_path / "blob")

    assert "more than 1048576" in said
    assert server.seen == []


async def test_slow_blob_ends_at_the_deadline(
    http: Http, server: FakeRegistry, repository: Repository, tmp_path: Path
) -> None:
    hasty = Registry(http, PLAIN, timeout=0.3)
    blob = layer(server, b"x" * 1000)
    server.faults.seconds_per_byte = 0.01

    said = await refused(hasty, repository, blob, tmp_path / "blob")

    assert "in time" in said


async def test_what_was_there_is_not_overwritten(
    server: FakeRegistry, registry: Registry, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "blob").write_text("mine")
    blob = layer(server, b"x" * 10)

    with pytest.raises(FileExistsError):
        await registry.blob(repository, blob, tmp_path / "blob", limit=LIMIT)

    assert (tmp_path / "blob").read_text() == "mine"


async def test_tags_of_all_pages_are_listed(http: Http) -> None:
    async with FakeRegistry(page=2) as server:
        for tag in ("a", "b", "c", "d", "e"):
            server.push(NAME, tag, [b"layer"])
        repository = Repository.parse(server.url(NAME))

        tags = await Registry(http, PLAIN).tags(repository)

    assert tags == ("a", "b", "c", "d", "e")
    assert server.counts["GET tags"] == 3


@pytest.mark.parametrize("inner", ["https://localhost", "http://localhost", "http://10.1.2.3:5000"])
async def test_pages_of_a_registry_behind_a_proxy_are_its_own(http: Http, inner: str) -> None:
    async with FakeRegistry(page=2) as server:
        server.faults.inner = inner
        for tag in ("a", "b", "c", "d", "e"):
            server.push(NAME, tag, [b"layer"])
        repository = Repository.parse(server.url(NAME))

        tags = await Registry(http, PLAIN).tags(repository)

    assert tags == ("a", "b", "c", "d", "e")


async def test_registry_that_refuses_long_pages_is_asked_for_its_own(http: Http) -> None:
    async with FakeRegistry(page=2) as server:
        server.faults.longest = 100
        for tag in ("a", "b", "c"):
            server.push(NAME, tag, [b"layer"])
        repository = Repository.parse(server.url(NAME))

        tags = await Registry(http, PLAIN).tags(repository)

    assert tags == ("a", "b", "c")
    assert server.counts["GET tags"] == 3


async def test_names_that_cannot_be_tags_are_passed_over(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    server.tags[NAME] = dict.fromkeys(("v1", "../v2", "a\nb", ""), "sha256:x")

    assert await registry.tags(repository) == ("v1",)


@pytest.mark.parametrize("kind", ["tags", "referrers"])
async def test_endless_pages_end(
    server: FakeRegistry, registry: Registry, repository: Repository, kind: str
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    server.push(NAME, "", [b"signature"], subject=pushed)
    server.faults.endless = kind

    with pytest.raises(RegistryError, match="more than"):
        await (
            registry.tags(repository)
            if kind == "tags"
            else registry.referrers(repository, pushed["digest"])
        )

    assert server.counts[f"GET {kind}"] <= 500


async def test_too_many_tags_are_refused(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    body = json.dumps({"tags": ["v1"] * 100_000})

    async def many(request: web.Request, _: str) -> web.StreamResponse:
        link = f'<{request.path}?last=v{server.counts["GET tags"]}>; rel="next"'
        return web.Response(text=body, headers={"Link": link})

    server.faults.hook = many

    with pytest.raises(RegistryError, match=f"more than {ociregistry.MAX_TAGS} tags"):
        await registry.tags(repository)


@pytest.mark.parametrize("kind", ["tags", "referrers"])
async def test_pages_are_bounded_together(
    server: FakeRegistry, registry: Registry, repository: Repository, kind: str
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    # Few and long: names that are not tags, an annotation.
    pages = {
        "tags": {"tags": ["x" * 3_000_000]},
        "referrers": {
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": [{**pushed, "annotations": {"x": "x" * 3_000_000}}],
        },
    }
    body = json.dumps(pages[kind])

    async def long(request: web.Request, _: str) -> web.StreamResponse:
        link = f'<{request.path}?last={server.counts[f"GET {kind}"]}>; rel="next"'
        return web.Response(text=body, headers={"Link": link}, content_type=OCI_INDEX)

    server.faults.hook = long

    with pytest.raises(RegistryError, match=r"more than .* bytes"):
        await (
            registry.tags(repository)
            if kind == "tags"
            else registry.referrers(repository, pushed["digest"])
        )

    assert server.counts[f"GET {kind}"] < 15


@pytest.mark.parametrize("kind", ["tags", "referrers"])
async def test_next_page_on_another_server_is_not_asked_for(
    server: FakeRegistry, registry: Registry, repository: Repository, kind: str
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    async with FakeRegistry() as other:
        server.faults.next_page = f"{other.base}/v2/{NAME}/{kind}/list"
        with pytest.raises(RegistryError):
            await (
                registry.tags(repository)
                if kind == "tags"
                else registry.referrers(repository, pushed["digest"])
            )

    assert other.seen == []


@pytest.mark.parametrize("address", ["http://[::1", "http://localhost:x/", "//", "mailto:a@b", "x"])
async def test_next_page_that_is_no_address_is_refused(
    server: FakeRegistry, registry: Registry, repository: Repository, address: str
) -> None:
    server.push(NAME, "v1", [b"layer"])
    server.faults.next_page = address

    with pytest.raises(RegistryError):
        await registry.tags(repository)


@pytest.mark.parametrize("api", [True, False])
async def test_referrers_are_found_with_and_without_the_api(http: Http, *, api: bool) -> None:
    async with FakeRegistry(referrers=api) as server:
        pushed = server.push(NAME, "v1", [b"layer"])
        signature = server.push(
            NAME, "", [b"s"], subject=pushed, artifact_type="application/signature"
        )
        server.push(NAME, "", [b"sbom"], subject=pushed, artifact_type="application/sbom")
        repository, registry = Repository.parse(server.url(NAME)), Registry(http, PLAIN)

        every = await registry.referrers(repository, pushed["digest"])
        signatures = await registry.referrers(
            repository, pushed["digest"], artifact_type="application/signature"
        )

    assert len(every) == 2
    assert [one.digest for one in signatures] == [signature["digest"]]


@pytest.mark.parametrize("api", [True, False])
async def test_nothing_referring_is_no_error(http: Http, *, api: bool) -> None:
    async with FakeRegistry(referrers=api) as server:
        pushed = server.push(NAME, "v1", [b"layer"])
        repository = Repository.parse(server.url(NAME))

        assert await Registry(http, PLAIN).referrers(repository, pushed["digest"]) == ()


@pytest.mark.parametrize("status", [401, 403, 500, 502])
async def test_failing_lookup_of_referrers_is_an_error(
    server: FakeRegistry, registry: Registry, repository: Repository, status: int
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    server.faults.statuses.append(("referrers", status, {}))

    with pytest.raises(RegistryError):
        await registry.referrers(repository, pushed["digest"])


async def test_server_that_answers_everything_with_a_page_has_no_referrers_api(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    pushed = server.push(NAME, "v1", [b"layer"])
    tag = pushed["digest"].replace(":", "-")
    server.index(NAME, tag, [{**pushed, "artifactType": "application/signature"}])

    async def page(_: web.Request, kind: str) -> web.StreamResponse | None:
        html = web.Response(text="<html>", content_type="text/html")
        return html if kind == "referrers" else None

    server.faults.hook = page

    found = await registry.referrers(repository, pushed["digest"])

    assert [one.digest for one in found] == [pushed["digest"]]


async def test_index_tells_its_platforms(
    server: FakeRegistry, registry: Registry, repository: Repository
) -> None:
    amd64, arm64 = server.push(NAME, "", [b"amd64"]), server.push(NAME, "", [b"arm64"])
    index = server.index(
        NAME,
        "v1",
        [
            {**amd64, "platform": {"os": "linux", "architecture": "amd64"}},
            {**arm64, "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
        ],
    )

    found = await registry.manifest(repository, index["digest"])

    assert found.is_index
    assert found.media_type == OCI_INDEX
    assert [one.platform and one.platform.architecture for one in found.manifests] == [
        "amd64",
        "arm64",
    ]
