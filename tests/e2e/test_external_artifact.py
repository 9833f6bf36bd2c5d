"""A third party's source: rows of a real PostgreSQL become an artifact, and are applied."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    DEADLINE,
    KUSTOMIZATION,
    Space,
    condition,
    config_map,
)
from tests.e2e.sources import artifact_of, content, digest_of
from tests.fakes import postgres
from tests.fakes.postgres import Database, Postgres
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXAMPLE = Path(__file__).parents[2] / "docs/examples/postgres-source"
EXTERNAL = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "ExternalArtifact")
AUDIENCE = "artifacts.penstock.dev"


async def token(space: Space, account: str, *audiences: str) -> str:
    """Return a token of a ServiceAccount, as a pod has it in a file."""
    path = f"/api/v1/namespaces/{space.namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    spec = {"spec": {"audiences": list(audiences), "expirationSeconds": 3600}}
    answer = await space.world.api.request("POST", path, body=body | spec)
    return str(answer["status"]["token"])


async def account(space: Space) -> None:
    """Make the account that the example's manifests ask for."""
    objects = yaml.safe_load_all((EXAMPLE / "rbac.yaml").read_text())
    for obj in objects:
        obj["metadata"]["namespace"] = space.namespace
        for subject in obj.get("subjects", ()):
            subject["namespace"] = space.namespace
        await space.world.apply(obj)


async def settings(space: Space, database: Database, directory: Path) -> Mapping[str, str]:
    """Return the environment of the program outside of a pod."""
    files = {
        "KUBERNETES_TOKEN_FILE": await token(space, "postgres-source"),
        "UPLOAD_TOKEN_FILE": await token(space, "postgres-source", AUDIENCE),
        "KUBERNETES_CA_FILE": space.world.plane.ca.decode(),
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    return {
        "DATABASE_URL": database.url,
        "ARTIFACT_NAMESPACE": space.namespace,
        "ARTIFACT_NAME": "rows",
        "INTERVAL_SECONDS": "1",
        "STORE_URL": f"http://{space.world.stack.storage_address}",
        "KUBERNETES_API": space.world.plane.server,
        **{name: str(directory / name) for name in files},
    }


@asynccontextmanager
async def running(environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Run the program as it stands in the documentation, apart from this repository."""
    paths = os.pathsep.join(path for path in sys.path if "site-packages" in path)
    inherited = {"PATH": os.environ["PATH"], "PYTHONPATH": paths}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(EXAMPLE / "postgres_source.py")),
        env={**inherited, **environment},
        cwd="/",
    )
    try:
        yield
        assert process.returncode is None, "the program ended by itself"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[Postgres]:
    async with postgres.running() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def database(server: Postgres) -> Database:
    """Return a database with the table."""
    made = await server.database()
    await made.execute((EXAMPLE / "schema.sql").read_text())
    return made


@asynccontextmanager
async def publishing(space: Space, database: Database, directory: Path) -> AsyncIterator[None]:
    """Run the program that publishes the table."""
    await account(space)
    async with running(await settings(space, database, directory)):
        yield


async def put(database: Database, path: str, text: str) -> None:
    """Insert or update a row."""
    values = f"($${path}$$, $${text}$$)"
    update = "ON CONFLICT (path) DO UPDATE SET content = EXCLUDED.content"
    await database.execute(f"INSERT INTO manifests VALUES {values} {update}")  # noqa: S608 - ours


async def published(space: Space, *, but: str = "") -> Json:
    """Return the object once it is Ready with another digest than ``but``."""

    def holds(obj: Json) -> bool:
        return condition(obj, "Ready").get("status") == "True" and digest_of(obj) != but

    return await space.world.until(EXTERNAL, space.namespace, "rows", holds)


def applier(space: Space) -> Json:
    return space.kustomization("rows", sourceRef={"kind": "ExternalArtifact", "name": "rows"})


async def test_a_row_that_changes_is_applied(
    space: Space, database: Database, tmp_path: Path
) -> None:
    async with publishing(space, database, tmp_path):
        await put(database, "greeting.yaml", config_map("greeting", hello="world"))
        await put(database, "other.yaml", config_map("other"))
        await space.world.apply(applier(space))
        first = await published(space)
        await space.world.until(CONFIG_MAP, space.namespace, "other", bool)

        await put(database, "greeting.yaml", config_map("greeting", hello="moon"))
        await database.execute("DELETE FROM manifests WHERE path = 'other.yaml'")
        changed = await space.world.until(
            CONFIG_MAP, space.namespace, "greeting", lambda obj: obj["data"] == {"hello": "moon"}
        )
        await space.world.gone(CONFIG_MAP, space.namespace, "other")
        last = await published(space, but=digest_of(first))
        applied = await space.ready(KUSTOMIZATION, "rows", revision=artifact_of(last)["revision"])

    assert changed["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == "rows"
    assert artifact_of(last)["revision"] == f"latest@{digest_of(last)}"
    assert await content(last) == {"greeting.yaml": config_map("greeting", hello="moon")}
    assert applied["status"]["lastAppliedRevision"] == artifact_of(last)["revision"]


async def test_what_the_store_refuses_is_told_and_the_last_artifact_stays(
    space: Space, database: Database, tmp_path: Path
) -> None:
    async with publishing(space, database, tmp_path):
        await put(database, "a.yaml", config_map("a"))
        before = await published(space)
        await put(database, "../../evil", "x")
        refused = await space.world.until(
            EXTERNAL,
            space.namespace,
            "rows",
            lambda obj: condition(obj, "Ready").get("status") == "False",
        )
        await database.execute("DELETE FROM manifests WHERE path LIKE '..%'")
        after = await published(space)

    assert "points outside" in condition(refused, "Ready")["message"]
    assert artifact_of(refused) == artifact_of(before)
    assert digest_of(after) == digest_of(before)


async def test_a_program_that_starts_anew_changes_nothing(
    space: Space, database: Database, tmp_path: Path
) -> None:
    await account(space)
    environment = await settings(space, database, tmp_path)
    await put(database, "a.yaml", config_map("a"))
    async with running(environment):
        before = await published(space)
    async with running(environment):
        await put(database, "b.yaml", config_map("b"))
        changed = await published(space, but=digest_of(before))
        await database.execute("DELETE FROM manifests WHERE path = 'b.yaml'")
        after = await published(space, but=digest_of(changed))

    assert artifact_of(after)["path"] == artifact_of(before)["path"]
    assert digest_of(after) == digest_of(before)


async def test_an_artifact_goes_with_its_object(
    space: Space, database: Database, tmp_path: Path
) -> None:
    async with publishing(space, database, tmp_path):
        await put(database, "a.yaml", config_map("a"))
        obj = await published(space)
    present = await answer(artifact_of(obj)["url"])

    await space.world.api.delete(EXTERNAL, "rows", space.namespace)
    async with asyncio.timeout(DEADLINE):
        while (gone := await answer(artifact_of(obj)["url"])) != 404:
            assert gone == 200
            await asyncio.sleep(0.05)

    assert present == 200


async def answer(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status
