"""GitRepositories on the whole product: what is fetched, what becomes of it, and what is said."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from controllers.source.reconciler import RECIPE
from tests.e2e.conftest import (
    GIT_REPOSITORY,
    Space,
    condition,
    revision_of,
)
from tests.e2e.sources import (
    artifact_of,
    content,
    digest_of,
    edit,
    fetches,
    looks,
    ready,
    rebuilt,
    refused,
    told,
)
from tests.fakes.gitrepository import AUTHOR, executable, link, submodule
from tests.fakes.gitserver import GitServer
from tests.tools.peaks import children
from tests.tools.waiting import until
from toolkit.policy.origins import RECORD

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "source.toolkit.fluxcd.io"
SUSPENDED = "suspended for this object"
MISSING_COMMIT = "0123456789abcdef0123456789abcdef01234567"


async def test_reference_gives_its_revision(space: Space) -> None:
    repository = space.repository()
    first = repository.commit({"a": "1"})
    repository.tag("v1.0.0")
    second = repository.commit({"a": "2"})
    repository.tag("v1.1.0", message="annotated")
    third = repository.commit({"a": "3"}, branch="next")
    repository.git("update-ref", "refs/pull/7/head", third)
    wanted = {
        "semver": ({"semver": ">=1.0.0", "tag": "v1.0.0"}, f"v1.1.0@sha1:{second}"),
        "name": ({"name": "refs/pull/7/head"}, f"refs/pull/7/head@sha1:{third}"),
        "hinted": ({"commit": first, "branch": "main"}, f"main@sha1:{first}"),
    }

    await space.world.apply(
        *(space.source(repository, name, ref=ref) for name, (ref, _) in wanted.items())
    )
    sources = await ready(space, *wanted)

    assert {name: revision_of(source) for name, source in sources.items()} == {
        name: revision for name, (_, revision) in wanted.items()
    }
    assert await content(sources["hinted"]) == {"a": "1"}
    assert await content(sources["name"]) == {"a": "3"}


async def test_status_event_and_address_are_those_that_flux_gives(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit({"a": "1"}, message="Open the valve\n\nslowly")

    await space.world.apply(space.source(repository))
    source = await space.ready(GIT_REPOSITORY)

    artifact, message = artifact_of(source), f"stored artifact for revision 'main@sha1:{commit}'"
    path = f"gitrepository/{space.namespace}/app/{commit}.tar.gz"
    assert artifact["path"] == path
    assert artifact["url"] == f"http://{space.world.stack.storage_address}/{path}"
    assert {
        row["type"]: (row["status"], row["message"]) for row in source["status"]["conditions"]
    } == {
        "Ready": ("True", message),
        "ArtifactInStorage": ("True", message),
    }
    [event] = await told(space, "NewArtifact")
    assert event["message"] == "stored artifact for commit 'Open the valve'"
    assert event["type"] == "Normal"
    assert event["metadata"]["annotations"] == {
        f"{GROUP}/revision": artifact["revision"],
        f"{GROUP}/digest": artifact["digest"],
        f"{GROUP}/author": AUTHOR,  # beyond Flux
    }


async def test_new_tag_in_the_range_is_a_new_revision(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    repository.tag("v1.0.0")
    await space.world.apply(space.source(repository, ref={"semver": "~1"}))
    await space.ready(GIT_REPOSITORY)

    commit = repository.commit({"a": "2"})
    repository.tag("v2.0.0")
    repository.tag("v1.2.0", message="later")
    await space.request(GIT_REPOSITORY)

    source = await space.ready(GIT_REPOSITORY, revision=commit)
    assert revision_of(source) == f"v1.2.0@sha1:{commit}"


async def test_what_the_repository_lacks_is_named(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    lacking = {
        "branch": ({"branch": "nowhere"}, "branch 'nowhere' not found"),
        "tag": ({"tag": "v9"}, "tag 'v9' not found"),
        "commit": ({"commit": MISSING_COMMIT}, MISSING_COMMIT),
    }

    await space.world.apply(
        *(space.source(repository, name, ref=ref) for name, (ref, _) in lacking.items())
    )
    sources = await refused(space, *lacking)

    for name, (_, saying) in lacking.items():
        row = condition(sources[name], "Ready")
        assert saying in row["message"]
        assert row["reason"] == "GitOperationFailed"
        assert row["message"].startswith(
            "failed to checkout and determine revision: unable to clone '"
        )
        assert condition(sources[name], "FetchFailed")["status"] == "True"
        assert not condition(sources[name], "Stalled")
    [event] = await told(space, "GitOperationFailed", "tag")
    assert event["type"] == "Warning"


async def test_empty_repository_is_called_empty_until_a_commit_comes(space: Space) -> None:
    repository = space.repository()
    await space.world.apply(space.source(repository))
    source = await space.refused(GIT_REPOSITORY, saying="is empty")

    commit = repository.commit({"a": "1"})

    assert condition(source, "Ready")["reason"] == "EmptyGitRepository"
    await space.ready(GIT_REPOSITORY, revision=commit)


async def test_submodules_come_only_when_asked_for(space: Space) -> None:
    inner, outer = space.repository("inner"), space.repository("outer")
    commit = inner.commit({"inner.yaml": "i"})
    modules = f'[submodule "deps"]\n\tpath = deps\n\turl = ../{inner.path.name}\n'
    outer.commit({"a": "1", ".gitmodules": modules, "deps": submodule(commit)})

    await space.world.apply(
        space.source(outer, "with", recurseSubmodules=True), space.source(outer, "without")
    )
    sources = await ready(space, "with", "without")

    assert await content(sources["with"]) == {"a": "1", "deps/inner.yaml": "i"}
    assert await content(sources["without"]) == {"a": "1"}
    await edit(space, {"recurseSubmodules": False}, "with")
    again = await rebuilt(space, sources["with"])
    assert digest_of(again) == digest_of(sources["without"])


async def test_sparse_checkout_takes_its_directories_alone(space: Space) -> None:
    repository = space.repository()
    repository.commit({"apps/web/a": "1", "apps/db/b": "2", "infra/c": "3", "root": "4"})

    await space.world.apply(space.source(repository, sparseCheckout=["apps/web", "./infra"]))
    source = await space.ready(GIT_REPOSITORY)

    assert await content(source) == {"apps/web/a": "1", "infra/c": "3"}
    await edit(space, {"sparseCheckout": ["apps"]})
    assert set(await content(await rebuilt(space, source))) == {"apps/web/a", "apps/db/b"}
    await edit(space, {"sparseCheckout": ["gone"]})
    await space.refused(GIT_REPOSITORY, saying="'gone' is not in the repository")


async def test_included_repository_is_copied_in_and_followed(space: Space) -> None:
    base, app = space.repository("base"), space.repository("app")
    base.commit({"deploy/a": "1", "deploy/sub/b": "1", "other": "1"})
    app.commit({"own": "1"})
    include = [
        {"repository": {"name": "base"}},
        {"repository": {"name": "base"}, "fromPath": "deploy/sub", "toPath": "vendor/x"},
    ]

    await space.world.apply(space.source(base, "base"), space.source(app, include=include))
    source = await space.ready(GIT_REPOSITORY)

    assert await content(source) == {
        "own": "1",
        "base/deploy/a": "1",
        "base/deploy/sub/b": "1",
        "base/other": "1",
        "vendor/x/b": "1",
    }
    base.commit({"deploy/sub/b": "2"})
    await space.request(GIT_REPOSITORY, "base")
    again = await rebuilt(space, source)
    assert (await content(again))["vendor/x/b"] == "2"
    assert revision_of(again) == revision_of(source)
    included = await space.get(GIT_REPOSITORY, "base")
    bare = {key: value for key, value in artifact_of(included).items() if key != "metadata"}
    assert again["status"]["includedArtifacts"] == [bare] * 2
    assert artifact_of(again)["metadata"].keys() == {RECIPE, RECORD}


async def test_missing_include_is_named_and_awaited(space: Space) -> None:
    base, app = space.repository("base"), space.repository("app")
    base.commit({"b": "1"})
    app.commit({"a": "1"})
    await space.world.apply(space.source(app, include=[{"repository": {"name": "base"}}]))

    source = await space.refused(GIT_REPOSITORY, saying="for include 'base'")
    await space.world.apply(space.source(base, "base"))
    healed = await space.ready(GIT_REPOSITORY)

    assert condition(source, "Ready")["reason"] == "NotFound"
    assert condition(source, "IncludeUnavailable")["status"] == "True"
    assert not condition(source, "FetchFailed")
    assert not condition(healed, "IncludeUnavailable")


async def test_ignore_rules_choose_what_is_kept(space: Space) -> None:
    repository = space.repository()
    repository.commit(
        {
            "a.yaml": "1",
            "picture.png": "1",
            ".github/ci.yaml": "1",
            ".gitignore": "1",
            "docs/guide.md": "1",
            "run.sh": executable("1"),
            "link": link("a.yaml"),
        }
    )
    await space.world.apply(space.source(repository))
    source = await space.ready(GIT_REPOSITORY)

    assert set(await content(source)) == {"a.yaml", "docs/guide.md", "run.sh"}
    await edit(space, {"ignore": "/*\n!/docs\n"})
    source = await rebuilt(space, source)
    assert set(await content(source)) == {"docs/guide.md"}
    await edit(space, {"ignore": None})
    repository.commit({".sourceignore": "docs/\n", "sub/.sourceignore": "*.sh", "sub/x.sh": "1"})
    await space.request(GIT_REPOSITORY)
    files = set(await content(await rebuilt(space, source)))
    assert files == {
        *("a.yaml", "picture.png", ".github/ci.yaml", "run.sh"),
        *(".sourceignore", "sub/.sourceignore"),
    }


async def test_unchanged_repository_is_looked_at_and_not_fetched(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    await space.world.apply(space.source(repository, interval="1s"))
    before = await space.ready(GIT_REPOSITORY)
    server = space.world.git
    seen, fetched = looks(server, repository), fetches(server, repository)

    await until(lambda: looks(server, repository) >= seen + 2)

    after = await space.get(GIT_REPOSITORY, "app")
    assert fetches(server, repository) == fetched == 1
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert len(await told(space, "NewArtifact")) == 1


async def test_requested_look_is_acknowledged_and_fetches_nothing(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    await space.world.apply(space.source(repository, interval="1h"))
    before = await space.ready(GIT_REPOSITORY)
    seen = looks(space.world.git, repository)

    await space.request(GIT_REPOSITORY)

    assert looks(space.world.git, repository) == seen + 1
    assert fetches(space.world.git, repository) == 1
    assert artifact_of(await space.get(GIT_REPOSITORY, "app")) == artifact_of(before)


async def test_suspended_repository_is_left_alone(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    await space.world.apply(space.source(repository))
    source = await space.ready(GIT_REPOSITORY)

    await space.suspend(GIT_REPOSITORY)
    commit = repository.commit({"a": "2"})
    seen = looks(space.world.git, repository)
    left = space.noted("source", saying=SUSPENDED)
    # Without the suspension this would be a reason to look.
    await edit(space, {"timeout": "59s"})
    await until(lambda: space.noted("source", saying=SUSPENDED) > left)

    assert looks(space.world.git, repository) == seen
    assert await content(source) == {"a": "1"}
    await edit(space, {"suspend": False})
    await space.ready(GIT_REPOSITORY, revision=commit)


async def test_server_that_never_answers_is_left_at_the_timeout(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit({"a": "1"})
    ended = 0

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal ended
        while await reader.read(1 << 16):
            pass
        ended += 1
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x.git"
        silent = [space.source(repository, f"silent-{n}", url=url, timeout="1s") for n in range(4)]
        await space.world.apply(*silent)
        await space.world.apply(space.source(repository))
        await space.ready(GIT_REPOSITORY, revision=commit)
        sources = await refused(space, *(obj["metadata"]["name"] for obj in silent))
        await until(lambda: ended >= len(silent))

    for source in sources.values():
        assert "timed out" in condition(source, "Ready")["message"]
        assert condition(source, "Ready")["reason"] == "GitOperationFailed"


class HoldingServer(GitServer):
    """Tells references at once, and keeps those who want objects waiting until it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if b"command=fetch" in await request.read():
            self.asked.set()
            await self.let_go.wait()
        return await super().answer(request)


async def test_fetch_shows_progress_and_is_cancelled_at_the_timeout(
    space: Space, tmp_path: Path
) -> None:
    async with HoldingServer(tmp_path) as server:
        commit = server.repository("app").commit({"a": "1"})
        source = space.source(space.repository(), url=f"{server.base}/app.git", timeout="5s")
        await space.world.apply(source)

        building = await space.world.until(
            GIT_REPOSITORY,
            space.namespace,
            "app",
            lambda obj: condition(obj, "Ready").get("status") == "Unknown",
        )
        await server.asked.wait()
        fetching = workers(space)
        late = await space.refused(GIT_REPOSITORY, saying="timed out")
        await until(lambda: fetching - workers(space))
        server.let_go.set()
        await edit(space, {"timeout": "60s"})  # on a busy machine a fetch may take longer
        await space.ready(GIT_REPOSITORY, revision=commit)

    message = f"building artifact: new upstream revision 'main@sha1:{commit}'"
    for kind, status in (("Reconciling", "True"), ("Ready", "Unknown")):
        row = condition(building, kind)
        assert (row["status"], row["reason"]) == (status, "Progressing")
        assert row["message"] == message
    assert condition(late, "Reconciling")["reason"] == "ProgressingWithRetry"


def workers(space: Space) -> set[int]:
    """Return the processes that the source component runs."""
    return children(space.world.stack.pids()["source-0"])


async def test_last_artifact_but_one_can_still_be_fetched(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    await space.world.apply(space.source(repository))
    before = await space.ready(GIT_REPOSITORY)

    commit = repository.commit({"a": "2"})
    await space.request(GIT_REPOSITORY)
    after = await space.ready(GIT_REPOSITORY, revision=commit)

    assert await content(before) == {"a": "1"}
    assert await content(after) == {"a": "2"}


async def test_deleted_repository_takes_its_files_along(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    await space.world.apply(space.source(repository))
    source = await space.ready(GIT_REPOSITORY)
    path = space.world.stack.layout.storage / artifact_of(source)["path"]
    assert path.exists()

    await space.world.api.delete(GIT_REPOSITORY, "app", space.namespace)
    await space.world.gone(GIT_REPOSITORY, space.namespace, "app")

    assert not path.parent.exists()
