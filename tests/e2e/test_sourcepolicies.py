"""What a SourcePolicy forbids is neither fetched nor used, from the moment that it forbids it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e import test_bucket as buckets
from tests.e2e import test_helm_sources as helm
from tests.e2e import test_ocirepository as ocirepositories
from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    Space,
    condition,
    config_map,
)
from tests.e2e.sources import artifact_of, secret
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.objectservers import S3Server
from tests.fakes.registry import FakeRegistry, tarball
from tests.testdata.signatures import generate
from tests.testdata.signatures.generate import Author
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

POLICY = GroupVersionKind("policy.penstock.dev", "v1alpha1", "SourcePolicy")
Make = Callable[..., Json]


@pytest_asyncio.fixture(loop_scope="session")
async def policy(space: Space) -> AsyncIterator[Make]:
    """Return what makes the policy of the test's namespace; it is deleted at the end."""

    def make(entry: Json, **spec: Any) -> Json:
        selector = {"matchLabels": {"kubernetes.io/metadata.name": space.namespace}}
        return {
            "apiVersion": POLICY.api_version,
            "kind": POLICY.kind,
            "metadata": {"name": space.namespace},
            "spec": {"namespaceSelector": selector, "sources": [entry], **spec},
        }

    yield make
    if await space.world.exists(POLICY, "", space.namespace):
        await space.world.api.delete(POLICY, space.namespace, "")


def allowing(*urls: str, **verify: Any) -> Json:
    required = {"verify": verify} if verify else {}
    return {"kind": "GitRepository", "urls": list(urls), **required}


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Author]]:
    with generate.authors(tmp_path_factory.mktemp("authors")) as made:
        yield made


async def withdrawn(space: Space, name: str = "app") -> Json:
    return await space.world.until(
        *(GIT_REPOSITORY, space.namespace, name),
        lambda obj: not dig(obj, "status", "artifact") and bool(condition(obj, "Ready")),
    )


async def test_source_that_a_new_policy_forbids_is_withdrawn_until_it_allows_it(
    space: Space, policy: Make
) -> None:
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("a")})
    await space.world.apply(space.source(repository), space.kustomization())
    before = await space.ready(GIT_REPOSITORY, revision=commit)
    await space.ready(revision=commit)

    await space.world.apply(policy(allowing("https://git.example/**")))
    obj = await withdrawn(space)
    refused = await space.refused()
    stored = space.world.stack.layout.storage / artifact_of(before)["path"]
    gone = not stored.exists()
    kept = await space.world.exists(CONFIG_MAP, space.namespace, "a")
    root = repository.url.rpartition("/")[0]
    await space.world.apply(policy(allowing(f"{root}/**")))
    await space.ready(GIT_REPOSITORY, revision=commit)
    await space.ready(revision=commit)

    ready = condition(obj, "Ready")
    assert (ready["reason"], condition(obj, "Stalled")["status"]) == ("AccessDenied", "True")
    assert "allowed are https://git.example/**" in ready["message"]
    assert f"SourcePolicy '{space.namespace}'" in ready["message"]
    assert gone
    assert kept
    assert condition(refused, "Ready")["status"] == "False"


async def test_suspended_source_is_not_used_either(space: Space, policy: Make) -> None:
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("a")})
    await space.world.apply(space.source(repository))
    await space.ready(GIT_REPOSITORY, revision=commit)
    await space.world.apply(space.source(repository, suspend=True))

    probe = space.kustomization("probe", path="./nowhere", retryInterval="500ms")
    await space.world.apply(policy(allowing("https://git.example/**")), probe)
    # A policy and who uses what it forbids come by two watches.
    await space.refused(name="probe", saying="SourcePolicy")
    await space.world.apply(space.kustomization())
    obj = await space.refused(saying="SourcePolicy")

    assert condition(obj, "Ready")["reason"] == "AccessDenied"
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "a")


async def test_trusting_a_key_that_the_policy_does_not_allow_is_no_way_around(
    space: Space, policy: Make, authors: dict[str, Author]
) -> None:
    author = authors["ssh-ed25519"]
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a")}, sign=author.key)
    keys = {"them.sshpub": author.public}
    source = space.source(
        repository, verify={"mode": "HEAD", "secretRef": {"name": "keys"}}, interval="1s"
    )
    root = repository.url.rpartition("/")[0]
    other = "SHA256:" + "A" * 43

    await space.world.apply(
        policy(allowing(f"{root}/**", git={"keys": [other]})), secret(space, "keys", keys), source
    )
    obj = await space.refused(GIT_REPOSITORY, saying=f"of {other}")
    verified = condition(obj, "SourceVerified")
    signed_by = condition(obj, "Ready")["message"].partition("signed by ")[2].split()
    fingerprint = next(word for word in signed_by if word.startswith("SHA256:")).rstrip(";")
    await space.world.apply(policy(allowing(f"{root}/**", git={"keys": [fingerprint]})))
    await space.ready(GIT_REPOSITORY)

    assert (verified["status"], verified["reason"]) == ("False", "VerificationError")
    assert not dig(obj, "status", "artifact")


async def test_policy_that_only_warns_forbids_nothing(space: Space, policy: Make) -> None:
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("a")})

    await space.world.apply(
        policy(allowing("https://git.example/**"), mode="Warn"), space.source(repository)
    )

    await space.ready(GIT_REPOSITORY, revision=commit)


async def test_namespace_that_requires_an_account_gets_nothing_applied_without(
    space: Space,
) -> None:
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("a")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=commit)

    async def require(value: str | None) -> None:
        labels = {"policy.penstock.dev/require-service-account": value}
        body = {"metadata": {"labels": labels}}
        await space.world.api.patch(NAMESPACE, space.namespace, "", body, strategy="merge")

    await require("true")
    obj = await space.refused(KUSTOMIZATION, saying="spec.serviceAccountName must be set")
    await require(None)
    await space.ready(revision=commit)

    assert condition(obj, "Ready")["reason"] == "AccessDenied"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A source, what it is made from, who uses it, and what was asked of its server."""

    kind: GroupVersionKind
    objects: tuple[Json, ...]
    user: tuple[GroupVersionKind, str] | None = None
    asked: Callable[[], int] = lambda: 0

    @property
    def name(self) -> str:
        return str(self.objects[0]["metadata"]["name"])


@asynccontextmanager
async def of_registry(space: Space, _: S3Server) -> AsyncIterator[Scene]:
    async with FakeRegistry() as server:
        server.push(ocirepositories.NAME, "latest", [tarball({"a.yaml": config_map("a")})])
        app = space.kustomization(sourceRef={"kind": "OCIRepository", "name": "app"})
        yield Scene(
            kind=ocirepositories.OCI_REPOSITORY,
            objects=(ocirepositories.source(space, server), app),
            user=(KUSTOMIZATION, "app"),
            asked=server.counts.total,
        )


@asynccontextmanager
async def of_bucket(space: Space, s3: S3Server) -> AsyncIterator[Scene]:
    place = await s3.place()
    await buckets.put(place, **{"a.yaml": config_map("a")})
    app = space.kustomization(sourceRef={"kind": "Bucket", "name": "app"})
    yield Scene(
        kind=buckets.BUCKET,
        objects=(buckets.source(space, place), secret(space, "keys", buckets.KEYS), app),
        user=(KUSTOMIZATION, "app"),
    )


@asynccontextmanager
async def of_index(space: Space, _: S3Server) -> AsyncIterator[Scene]:
    async with ChartRepository() as server:
        server.add(version="6.0.0")
        yield Scene(
            kind=helm.HELM_REPOSITORY,
            objects=(helm.repository(space, server.url), helm.helm_chart(space)),
            user=(helm.HELM_CHART, "app"),
            asked=lambda: len(server.seen),
        )


@asynccontextmanager
async def of_chart(space: Space, _: S3Server) -> AsyncIterator[Scene]:
    async with ChartRepository() as server:
        server.add(version="6.0.0")
        charts = helm.repository(space, server.url)
        yield Scene(kind=helm.HELM_CHART, objects=(helm.helm_chart(space), charts))


@asynccontextmanager
async def of_chart_in_registry(space: Space, _: S3Server) -> AsyncIterator[Scene]:
    async with FakeRegistry() as server:
        helm.push(server, "6.0.0")
        url = server.url("charts")
        charts = helm.repository(space, url, type="oci", insecure=True)
        yield Scene(
            kind=helm.HELM_CHART,
            objects=(helm.helm_chart(space), charts),
            asked=server.counts.total,
        )


MakeScene = Callable[[Space, S3Server], AbstractAsyncContextManager[Scene]]
SIGNED = {"verify": {"cosign": {}}}
CASES: dict[str, tuple[MakeScene, list[Json], str]] = {
    # what offers it, what is allowed, what is said
    "OCIRepository of another registry": (
        of_registry,
        [{"kind": "OCIRepository", "urls": ["oci://registry.example/**"]}],
        "allowed are oci://registry.example/**",
    ),
    "OCIRepository that verifies nothing": (
        of_registry,
        [{"kind": "OCIRepository", "urls": ["oci+http://**"], **SIGNED}],
        "spec.verify",
    ),
    "Bucket elsewhere": (
        of_bucket,
        [{"kind": "Bucket", "urls": ["https://s3.example/**"]}],
        "allowed are https://s3.example/**",
    ),
    "kind that is not named": (
        of_bucket,
        [{"kind": "GitRepository", "urls": ["https://git.example/**"]}],
        "Bucket is not allowed here; use one of: GitRepository",
    ),
    "HelmRepository elsewhere": (
        of_index,
        [
            {"kind": "HelmRepository", "urls": ["https://charts.example/**"]},
            {"kind": "HelmChart"},
        ],
        "allowed are https://charts.example/**",
    ),
    "HelmChart that verifies nothing": (
        of_chart,
        [{"kind": "HelmRepository", "urls": ["http://**"]}, {"kind": "HelmChart", **SIGNED}],
        "spec.verify",
    ),
    "HelmChart of a repository elsewhere": (
        of_chart,
        [
            {"kind": "HelmRepository", "urls": ["https://charts.example/**"]},
            {"kind": "HelmChart"},
        ],
        "allowed are https://charts.example/**",
    ),
    "HelmChart of another registry": (
        of_chart_in_registry,
        [
            {"kind": "HelmRepository", "urls": ["oci://registry.example/**"]},
            {"kind": "HelmChart"},
        ],
        "allowed are oci://registry.example/**",
    ),
}


def denied(obj: Json) -> bool:
    ready, stalled = condition(obj, "Ready"), condition(obj, "Stalled")
    return (ready.get("reason"), stalled.get("status")) == ("AccessDenied", "True")


@pytest.mark.ungated
@pytest.mark.parametrize(("offer", "allowed", "saying"), CASES.values(), ids=CASES)
async def test_every_kind_is_withdrawn_while_a_policy_forbids_it(
    space: Space, policy: Make, s3: S3Server, *, offer: MakeScene, allowed: list[Json], saying: str
) -> None:
    world, namespace = space.world, space.namespace
    async with offer(space, s3) as scene:
        await world.apply(*scene.objects)
        before = await space.ready(scene.kind, scene.name)
        for user in filter(None, [scene.user]):
            await space.ready(*user)
        stored = world.stack.layout.storage / artifact_of(before)["path"]
        kept = stored.exists()

        await world.apply(policy(allowed[0], sources=allowed))
        obj = await world.until(scene.kind, namespace, scene.name, denied)
        for user in filter(None, [scene.user]):
            await world.until(user[0], namespace, user[1], denied)
        gone = not stored.exists()
        await world.api.delete(POLICY, namespace, "")
        await space.ready(scene.kind, scene.name)
        for user in filter(None, [scene.user]):
            await space.ready(*user)

    message = condition(obj, "Ready")["message"]
    assert kept
    assert gone
    assert not dig(obj, "status", "artifact")
    assert saying in message
    assert f"SourcePolicy '{namespace}'" in message


@pytest.mark.ungated
@pytest.mark.parametrize("offer", [of_registry, of_index, of_chart_in_registry])
async def test_what_admission_did_not_see_is_refused_before_anything_is_fetched(
    space: Space, policy: Make, s3: S3Server, offer: MakeScene
) -> None:
    probe = space.source(space.repository("probe"), "probe")
    await space.world.apply(policy(allowing("https://git.example/**")), probe)
    # A policy and what it forbids come by two watches.
    await space.world.until(GIT_REPOSITORY, space.namespace, "probe", denied)
    async with offer(space, s3) as scene:
        await space.world.apply(*scene.objects)

        obj = await space.world.until(scene.kind, space.namespace, scene.name, denied)

        asked = scene.asked()
    assert asked == 0
    assert not dig(obj, "status", "artifact")
