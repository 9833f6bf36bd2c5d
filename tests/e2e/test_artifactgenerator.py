"""Artifacts composed of several sources, or split out of one, applied as any other."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    Space,
    condition,
    config_map,
    is_ready,
)
from tests.e2e.sources import artifact_of, content, digest_of
from tests.fakes.gitrepository import Repository
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

GENERATOR = GroupVersionKind("source.extensions.fluxcd.io", "v1beta1", "ArtifactGenerator")
EXTERNAL = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "ExternalArtifact")
SWITCH = "source.extensions.fluxcd.io/reconcile"


def generator(space: Space, *artifacts: Json, sources: str = "app", **spec: Any) -> Json:
    """Return a generator whose sources are GitRepositories known by their names."""
    return {
        "apiVersion": GENERATOR.api_version,
        "kind": GENERATOR.kind,
        "metadata": {"name": "gen", "namespace": space.namespace},
        "spec": {
            "sources": [
                {"alias": name, "kind": "GitRepository", "name": name} for name in sources.split()
            ],
            "artifacts": list(artifacts),
            **spec,
        },
    }


def artifact(name: str, *copies: tuple[str, str], **fields: str) -> Json:
    return {"name": name, "copy": [{"from": a, "to": b} for a, b in copies], **fields}


async def push(space: Space, repository: Repository, files: Mapping[str, str | None]) -> str:
    """Commit, and have the GitRepository looked at."""
    commit = repository.commit(files)
    await space.request(GIT_REPOSITORY)
    return commit


async def made(space: Space, name: str, *, but: str = "") -> Json:
    """Return an ExternalArtifact once it is Ready with another digest than ``but``."""

    def holds(obj: Json) -> bool:
        ready = condition(obj, "Ready").get("status") == "True"
        return ready and digest_of(obj) != but

    return await space.world.until(EXTERNAL, space.namespace, name, holds)


async def start(space: Space, *outputs: Json, **spec: Any) -> Repository:
    """Have a generator make these of the first repository of the test."""
    repository = space.repository()
    repository.commit(MONOREPO)
    await space.world.apply(space.source(repository), generator(space, *outputs, **spec))
    return repository


async def generated(space: Space) -> Json:
    """Have a generator make ``web``."""
    await start(space, artifact("web", ("@app/apps/web/**", "@artifact/")))
    web = await made(space, "web")
    await space.ready(GENERATOR, "gen")
    return web


async def served(obj: Json) -> int:
    """Return what the artifact server answers for an artifact."""
    async with aiohttp.ClientSession() as session, session.get(artifact_of(obj)["url"]) as reply:
        return reply.status


MONOREPO = {
    "apps/web/web.yaml": config_map("web", v="1"),
    "apps/db/db.yaml": config_map("db", v="1"),
    "README.md": "not deployed",
}


async def test_a_change_reaches_only_the_artifact_that_it_concerns(space: Space) -> None:
    repository = space.repository()
    repository.commit(MONOREPO)
    await space.world.apply(
        space.source(repository),
        generator(
            space,
            artifact("web", ("@app/apps/web/**", "@artifact/"), originRevision="@app"),
            artifact("db", ("@app/apps/db/**", "@artifact/")),
        ),
        space.kustomization("web", sourceRef={"kind": "ExternalArtifact", "name": "web"}),
    )
    web, db = await made(space, "web"), await made(space, "db")
    await space.ready(KUSTOMIZATION, "web")
    before = await space.ready(GENERATOR, "gen")

    commit = await push(space, repository, {"apps/web/web.yaml": config_map("web", v="2")})
    newer = await made(space, "web", but=digest_of(web))
    applied = await space.world.until(
        CONFIG_MAP, space.namespace, "web", lambda obj: obj["data"] == {"v": "2"}
    )

    assert await content(newer) == {"web.yaml": config_map("web", v="2")}
    assert artifact_of(newer)["revision"] == f"latest@{digest_of(newer)}"
    assert artifact_of(newer)["metadata"] == {
        "org.opencontainers.image.revision": f"main@sha1:{commit}"
    }
    assert (await space.get(EXTERNAL, "db"))["metadata"] == db["metadata"]
    assert applied["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == "web"
    ready = condition(before, "Ready")
    assert ready["message"] == "reconciliation succeeded, generated 2 artifact(s)"
    assert before["metadata"]["finalizers"] == ["source.extensions.fluxcd.io/finalizer"]
    assert [entry["name"] for entry in before["status"]["inventory"]] == ["db", "web"]


async def test_an_applier_is_told_the_upstream_revision(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit(MONOREPO)
    await space.world.apply(
        space.source(repository),
        generator(
            space, artifact("web", ("@app/apps/web/**", "@artifact/"), originRevision="@app")
        ),
        space.kustomization("web", sourceRef={"kind": "ExternalArtifact", "name": "web"}),
    )

    applied = await space.ready(KUSTOMIZATION, "web")

    assert applied["status"]["lastAppliedOriginRevision"] == f"main@sha1:{commit}"


async def test_several_sources_become_one_artifact(space: Space) -> None:
    base, over = space.repository("app"), space.repository("over")
    base.commit({"chart/values.yaml": "a: 1\nb: {c: 1, d: [1]}\n", "chart/Chart.yaml": "name: x\n"})
    commit = over.commit({"prod.yaml": "b: {d: [2], e: 3}\n"})
    merge = {"from": "@over/prod.yaml", "to": "@artifact/chart/values.yaml", "strategy": "Merge"}
    composed = artifact("all", ("@app/", "@artifact/"), revision="@over")
    composed["copy"].append(merge)

    await space.world.apply(
        space.source(base),
        space.source(over, "over"),
        generator(space, composed, sources="app over"),
    )
    obj = await made(space, "all")

    assert artifact_of(obj)["revision"] == f"main@sha1:{commit}"
    assert await content(obj) == {
        "chart/Chart.yaml": "name: x\n",
        "chart/values.yaml": "a: 1\nb:\n  c: 1\n  d:\n  - 2\n  e: 3\n",
    }


async def test_a_generator_can_feed_another(space: Space) -> None:
    repository = space.repository()
    repository.commit(MONOREPO)
    second = generator(space, artifact("last", ("@made/**", "@artifact/sub/")))
    second["metadata"]["name"] = "second"
    second["spec"]["sources"] = [{"alias": "made", "kind": "ExternalArtifact", "name": "web"}]

    await space.world.apply(
        space.source(repository),
        second,
        generator(space, artifact("web", ("@app/apps/web/**", "@artifact/"))),
    )

    assert list(await content(await made(space, "last"))) == ["sub/web.yaml"]


async def test_directories_become_artifacts_and_leave_with_them(space: Space) -> None:
    repository = await start(
        space,
        artifact("x-{name}", ("@app/apps/{name}/**", "@artifact/")),
        pathPattern="@app/apps/{name}",
        commonMetadata={"labels": {"team": "one"}},
    )
    web = await made(space, "x-web")
    db = await made(space, "x-db")

    changes = {"apps/new/new.yaml": config_map("new"), "apps/db/db.yaml": None}
    await push(space, repository, changes)
    new = await made(space, "x-new")
    await space.world.gone(EXTERNAL, space.namespace, "x-db")
    settled = await space.world.until(
        GENERATOR,
        space.namespace,
        "gen",
        lambda obj: [e["name"] for e in obj["status"]["inventory"]] == ["x-new", "x-web"],
    )

    assert web["metadata"]["labels"]["name"] == "web"
    assert new["metadata"]["labels"]["team"] == "one"
    assert (
        new["metadata"]["labels"]["source.extensions.fluxcd.io/generator"]
        == (settled["metadata"]["uid"])
    )
    await until_served(db, 404)


async def until_served(obj: Json, status: int) -> None:
    """Return once the artifact server gives this answer."""

    async def answered() -> bool:
        answer = await served(obj)
        assert answer in {200, 404}
        return answer == status

    await until(answered)


async def test_a_source_that_is_missing_is_waited_for(space: Space) -> None:
    repository = space.repository()
    repository.commit(MONOREPO)
    await space.world.apply(generator(space, artifact("web", ("@app/**", "@artifact/"))))
    waiting = await space.refused(GENERATOR, "gen")

    await space.world.apply(space.source(repository))
    await made(space, "web")

    ready = condition(waiting, "Ready")
    assert ready["reason"] == "SourceFetchFailed"
    assert ready["message"] == f"GitRepository '{space.namespace}/app' not found"


async def test_an_artifact_of_somebody_else_is_never_overwritten(space: Space) -> None:
    repository = space.repository()
    repository.commit(MONOREPO)
    theirs = {
        "apiVersion": EXTERNAL.api_version,
        "kind": EXTERNAL.kind,
        "metadata": {"name": "web", "namespace": space.namespace},
        "spec": {"sourceRef": {"kind": "Postgres", "name": "rows"}},
    }
    await space.world.apply(
        theirs,
        space.source(repository),
        generator(space, artifact("web", ("@app/**", "@artifact/"))),
    )

    refused = await space.refused(GENERATOR, "gen", saying="is not overwritten")
    untouched = await space.get(EXTERNAL, "web")

    assert condition(refused, "Stalled")["reason"] == "AccessDenied"
    assert (
        "'Postgres' 'rows'".replace("'Postgres'", "Postgres")
        in (condition(refused, "Ready")["message"])
    )
    assert "labels" not in untouched["metadata"]
    assert "status" not in untouched
    await space.world.api.delete(GENERATOR, "gen", space.namespace)
    await space.world.gone(GENERATOR, space.namespace, "gen")
    assert await space.world.exists(EXTERNAL, space.namespace, "web")


@pytest.mark.ungated
@pytest.mark.parametrize(
    ("change", "reason", "saying"),
    [
        ({"from": "@app/../../etc/passwd"}, "ValidationFailed", "leads out of its root"),
        ({"to": "@artifact/../../x"}, "ValidationFailed", "leads out of its root"),
        ({"from": "@other/x"}, "ValidationFailed", "no source with the alias 'other'"),
        ({"from": "@app/none"}, "BuildFailed", "artifact 'web': '@app/none' does not exist"),
        ({"strategy": "Extract", "from": "@app/README.md"}, "BuildFailed", "is no tarball"),
    ],
    ids=["from", "to", "alias", "missing", "extract"],
)
async def test_what_cannot_be_made_is_told(
    space: Space, change: dict[str, str], reason: str, saying: str
) -> None:
    output = artifact("web", ("@app/**", "@artifact/"))
    output["copy"][0] |= change

    await start(space, output)
    refused = await space.refused(GENERATOR, "gen", saying=saying)

    assert condition(refused, "Ready")["reason"] == reason
    assert bool(condition(refused, "Stalled")) == (reason == "ValidationFailed")
    assert not await space.world.exists(EXTERNAL, space.namespace, "web")


async def test_a_generator_that_is_switched_off_stays_as_it_is(space: Space) -> None:
    web = await generated(space)
    before = await annotate(space, "disabled")
    # What the sources say comes by other watches, and may be sooner known.
    await until(lambda: space.noted("source", saying="disabled by the annotation"))

    await push(space, space.repositories[0], {"apps/web/web.yaml": config_map("web", v="2")})
    off = await space.get(GENERATOR, "gen")
    kept = await space.get(EXTERNAL, "web")
    await annotate(space, "enabled")
    await made(space, "web", but=digest_of(web))

    assert off["status"] == before["status"]
    assert digest_of(kept) == digest_of(web)


async def annotate(space: Space, value: str) -> Json:
    body = {"metadata": {"annotations": {SWITCH: value}}}
    return await space.world.api.patch(GENERATOR, "gen", space.namespace, body, strategy="merge")


async def test_what_somebody_deletes_or_changes_is_set_right(space: Space) -> None:
    await start(
        space,
        artifact("web", ("@app/apps/web/**", "@artifact/")),
        artifact("db", ("@app/apps/db/**", "@artifact/")),
    )
    web, db = await made(space, "web"), await made(space, "db")
    await space.ready(GENERATOR, "gen")

    await space.world.api.delete(EXTERNAL, "web", space.namespace)
    forged = {"status": {"artifact": artifact_of(db) | {"digest": "sha256:" + "0" * 64}}}
    await space.world.api.patch(
        EXTERNAL, "db", space.namespace, forged, strategy="merge", subresource="status"
    )
    again = await space.world.until(
        EXTERNAL,
        space.namespace,
        "web",
        lambda obj: obj["metadata"]["uid"] != web["metadata"]["uid"] and "status" in obj,
    )
    await space.world.until(
        EXTERNAL, space.namespace, "db", lambda obj: digest_of(obj) == digest_of(db)
    )

    assert digest_of(again) == digest_of(web)
    assert await served(again) == 200


async def test_a_deleted_generator_takes_everything_along(space: Space) -> None:
    web = await generated(space)

    await space.world.api.delete(GENERATOR, "gen", space.namespace)
    await space.world.gone(GENERATOR, space.namespace, "gen")
    await space.world.gone(EXTERNAL, space.namespace, "web")

    await until_served(web, 404)


async def test_another_look_at_the_same_sources_writes_nothing(space: Space) -> None:
    before = await generated(space)

    await space.request(GENERATOR, "gen")
    after = await space.get(EXTERNAL, "web")

    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert is_ready(await space.get(GENERATOR, "gen"))
    assert dig(after, "status", "artifact") == artifact_of(before)
