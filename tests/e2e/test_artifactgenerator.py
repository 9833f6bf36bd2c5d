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
)
from tests.e2e.generators import EXTERNAL, GENERATOR, artifact, generator, made
from tests.e2e.sources import artifact_of, content, digest_of
from tests.fakes.gitrepository import Repository
from tests.tools.waiting import until
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def push(space: Space, repository: Repository, files: Mapping[str, str | None]) -> str:
    """Commit, and have the GitRepository looked at."""
    commit = repository.commit(files)
    await space.request(GIT_REPOSITORY)
    return commit


async def start(space: Space, *outputs: Json, **spec: Any) -> Repository:
    """Have a generator make these of the first repository of the test."""
    repository = space.repository()
    repository.commit(MONOREPO)
    await space.world.apply(space.source(repository), generator(space, *outputs, **spec))
    return repository


async def served(obj: Json) -> int:
    """Return what the artifact server answers for an artifact."""
    async with aiohttp.ClientSession() as session, session.get(artifact_of(obj)["url"]) as reply:
        return reply.status


MONOREPO = {
    "apps/web/web.yaml": config_map("web", v="1"),
    "apps/db/db.yaml": config_map("db", v="1"),
    "README.md": "not deployed",
}


async def test_a_change_reaches_only_those_whom_it_concerns(space: Space) -> None:
    repository = space.repository()
    first = repository.commit(MONOREPO)
    second = generator(space, artifact("last", ("@made/**", "@artifact/sub/")))
    second["metadata"]["name"] = "second"
    second["spec"]["sources"] = [{"alias": "made", "kind": "ExternalArtifact", "name": "web"}]
    await space.world.apply(
        space.source(repository),
        generator(
            space,
            artifact("web", ("@app/apps/web/**", "@artifact/"), originRevision="@app"),
            artifact("db", ("@app/apps/db/**", "@artifact/")),
        ),
        second,
        space.kustomization("web", sourceRef={"kind": "ExternalArtifact", "name": "web"}),
    )
    web, db = await made(space, "web"), await made(space, "db")
    last = await made(space, "last")
    follower = await space.ready(KUSTOMIZATION, "web")
    before = await space.ready(GENERATOR, "gen")

    commit = await push(space, repository, {"apps/web/web.yaml": config_map("web", v="2")})
    newer = await made(space, "web", but=digest_of(web))
    applied = await space.world.until(
        CONFIG_MAP, space.namespace, "web", lambda obj: obj["data"] == {"v": "2"}
    )
    fed = await made(space, "last", but=digest_of(last))

    assert follower["status"]["lastAppliedOriginRevision"] == f"main@sha1:{first}"
    assert await content(fed) == {"sub/web.yaml": config_map("web", v="2")}
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
    assert "Postgres 'rows'" in condition(refused, "Ready")["message"]
    assert "labels" not in untouched["metadata"]
    assert "status" not in untouched
    await space.world.api.delete(GENERATOR, "gen", space.namespace)
    await space.world.gone(GENERATOR, space.namespace, "gen")
    assert await space.world.exists(EXTERNAL, space.namespace, "web")


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
    await start(space, artifact("web", ("@app/apps/web/**", "@artifact/")))
    web = await made(space, "web")
    await space.ready(GENERATOR, "gen")

    await space.world.api.delete(GENERATOR, "gen", space.namespace)
    await space.world.gone(GENERATOR, space.namespace, "gen")
    await space.world.gone(EXTERNAL, space.namespace, "web")

    await until_served(web, 404)
