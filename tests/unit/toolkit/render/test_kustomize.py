"""Builds give what the files say, and an error that says what to do where they cannot."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from toolkit.errors import TransientError
from toolkit.native import calls
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json, ref_of
from toolkit.render import kustomize

WriteTree = Callable[..., Path]

_SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers: [{name: main, image: "registry.example.com/web:1"}]
"""


@pytest.fixture
def pool(engine_pool: WorkerPool) -> WorkerPool:
    return engine_pool


async def _build(
    pool: WorkerPool, root: Path, path: str = ".", *, seconds: float = 20, **spec: object
) -> kustomize.Rendered:
    build = kustomize.Build(mounts={"": root}, path=path, transformations=dict(spec))
    return await kustomize.build(pool, build, timeout=seconds, flow="team")


def _refs(rendered: kustomize.Rendered) -> list[str]:
    return [str(ref_of(obj)) for obj in rendered.objects]


async def test_a_directory_without_kustomization_is_all_that_is_below_it(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    root = write_tree({"app/b/s.yml": _SERVICE, "app/a.yaml": _DEPLOYMENT, "other/x.yaml": "x"})

    rendered = await _build(pool, root, "./app")

    assert _refs(rendered) == ["Deployment/web", "Service/web"]
    assert rendered.objects[1]["spec"] == {"ports": [{"port": 80}]}
    assert rendered.encrypted == frozenset()


async def test_the_spec_changes_what_is_built(pool: WorkerPool, write_tree: WriteTree) -> None:
    root = write_tree({"kustomization.yaml": "resources: [d.yaml]", "d.yaml": _DEPLOYMENT})
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}"

    rendered = await _build(
        pool,
        root,
        targetNamespace="apps",
        namePrefix="a-",
        images=[{"name": "registry.example.com/web", "newTag": "2"}],
        patches=[{"patch": patch}],
    )

    (deployment,) = rendered.objects
    assert _refs(rendered) == ["Deployment/apps/a-web"]
    assert deployment["spec"]["replicas"] == 3
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/web:2"


async def test_several_sources_are_one_tree(pool: WorkerPool, write_tree: WriteTree) -> None:
    app = write_tree({"kustomization.yaml": "resources: [../vendor/base]"}, name="app")
    vendor = write_tree({"base/s.yaml": _SERVICE, "base/kustomization.yaml": "resources: [s.yaml]"})
    build = kustomize.Build(
        mounts={"./app/": app, "vendor": vendor}, path="app", transformations={}
    )

    rendered = await kustomize.build(pool, build, timeout=20, flow="team")

    assert _refs(rendered) == ["Service/web"]


async def test_only_ciphertext_that_was_read_is_reported_and_replaced(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    generator = (
        "secretGenerator: [{name: s, files: [key.txt], options: {disableNameSuffixHash: true}}]"
    )
    root = write_tree(
        {"kustomization.yaml": generator, "key.txt": "ENC[...]", "unused.txt": "ENC[...]"}
    )
    first = kustomize.Build(
        mounts={"": root},
        path=".",
        transformations={},
        suspects=frozenset({"key.txt", "unused.txt"}),
    )

    met = await kustomize.build(pool, first, timeout=20, flow="team")
    second = kustomize.Build(
        mounts={"": root}, path=".", transformations={}, files={"key.txt": b"plain"}
    )
    clear = await kustomize.build(pool, second, timeout=20, flow="team")

    assert met.encrypted == {"key.txt"}
    assert clear.objects[0]["data"] == {"key.txt": "cGxhaW4="}
    assert (root / "key.txt").read_text() == "ENC[...]"


async def test_an_encrypted_patch_fails_the_build_and_is_reported(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    kustomization = "resources: [s.yaml]\npatches: [{path: p.yaml}]"
    root = write_tree(
        {"kustomization.yaml": kustomization, "s.yaml": _SERVICE, "p.yaml": "ENC[...]"}
    )
    build = kustomize.Build(
        mounts={"": root}, path=".", transformations={}, suspects=frozenset({"p.yaml"})
    )

    with pytest.raises(kustomize.BuildError) as caught:
        await kustomize.build(pool, build, timeout=20, flow="team")

    assert caught.value.encrypted == {"p.yaml"}


async def test_a_missing_path_has_its_own_error(pool: WorkerPool, write_tree: WriteTree) -> None:
    with pytest.raises(kustomize.PathNotFoundError, match="kustomization path not found") as caught:
        await _build(pool, write_tree({"a.yaml": _SERVICE}), "./missing")

    assert caught.value.reason == "ArtifactFailed"


async def test_a_build_error_is_retried_and_names_the_file(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    with pytest.raises(kustomize.BuildError, match=r"from apps/broken\.yaml: .*line 2") as caught:
        await _build(pool, write_tree({"apps/broken.yaml": "a:\n  b: [\n"}))

    assert isinstance(caught.value, TransientError)
    assert caught.value.reason == "BuildFailed"


async def test_an_artifact_that_vanished_is_an_error(pool: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(kustomize.BuildError, match="no such file or directory"):
        await _build(pool, tmp_path / "gone")


async def test_an_endless_build_ends_at_its_deadline_and_the_next_one_works(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    objects = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\n" for n in range(9000)
    )
    root = write_tree({"many/a.yaml": objects, "few/a.yaml": _SERVICE})

    with pytest.raises(kustomize.BuildError, match=r"the build of 'many' did not end within 0\.5s"):
        await _build(pool, root, "many", seconds=0.5, namePrefix="x-")

    assert _refs(await _build(pool, root, "few")) == ["Service/web"]


async def test_a_schema_of_one_tenant_does_not_reach_the_next(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    schema = {
        "definitions": {
            "d": {
                "type": "object",
                "properties": {"spec": {"type": "object"}},
                "x-kubernetes-group-version-kind": [
                    {"group": "apps", "version": "v1", "kind": "Deployment"}
                ],
            }
        }
    }
    evil = write_tree(
        {
            "kustomization.yaml": "openapi: {path: schema.json}\nresources: [d.yaml]",
            "schema.json": msgspec.json.encode(schema).decode(),
            "d.yaml": _DEPLOYMENT,
        },
        name="evil",
    )
    good = write_tree({"d.yaml": _DEPLOYMENT}, name="good")
    patch = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
        "spec: {template: {spec: {containers: [{name: main, tty: true}]}}}"
    )

    async def container(root: Path) -> Json:
        (deployment,) = (await _build(pool, root, patches=[{"patch": patch}])).objects
        (found,) = deployment["spec"]["template"]["spec"]["containers"]
        return dict(found)

    assert await container(evil) == {"name": "main", "tty": True}
    assert (await container(good))["image"] == "registry.example.com/web:1"


@pytest.mark.usefixtures("engine_library")
async def test_concurrent_builds_give_the_same(write_tree: WriteTree) -> None:
    root = write_tree(
        {
            "one/kustomization.yaml": "namePrefix: one-\nresources: [../base]",
            "two/kustomization.yaml": "nameSuffix: -two\nresources: [../base]",
            "base/kustomization.yaml": "resources: [d.yaml, s.yaml]",
            "base/d.yaml": _DEPLOYMENT,
            "base/s.yaml": _SERVICE,
        }
    )
    pool = calls.start(size=2, reads=(root,))

    results = await asyncio.gather(
        *(_build(pool, root, ("one", "two", "base")[n % 3], seconds=60) for n in range(50))
    )

    await pool.close()
    for first, others in ((n, results[n::3]) for n in range(3)):
        assert all(other == results[first] for other in others)
    assert [_refs(result) for result in results[:3]] == [
        ["Deployment/one-web", "Service/one-web"],
        ["Deployment/web-two", "Service/web-two"],
        ["Deployment/web", "Service/web"],
    ]
