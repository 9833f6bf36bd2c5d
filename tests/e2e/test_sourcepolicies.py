"""What a SourcePolicy forbids is neither fetched nor used, from the moment that it forbids it."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e import helmsources as helm
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
from tests.fakes.registry import FakeRegistry
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


def denied(obj: Json) -> bool:
    ready, stalled = condition(obj, "Ready"), condition(obj, "Stalled")
    return (ready.get("reason"), stalled.get("status")) == ("AccessDenied", "True")


async def test_chart_is_withdrawn_while_a_policy_forbids_its_registry(
    space: Space, policy: Make
) -> None:
    """The registry is an object that has no pass of its own."""
    world, namespace = space.world, space.namespace
    async with FakeRegistry() as server:
        helm.push(server, "6.0.0")
        url = server.url("charts")
        charts = helm.repository(space, url, type="oci", insecure=True)
        await world.apply(helm.helm_chart(space), charts)
        before = await space.ready(helm.HELM_CHART)
        stored = world.stack.layout.storage / artifact_of(before)["path"]
        kept = stored.exists()

        elsewhere = {"kind": "HelmRepository", "urls": ["oci://registry.example/**"]}
        await world.apply(policy(elsewhere, sources=[elsewhere, {"kind": "HelmChart"}]))
        obj = await world.until(helm.HELM_CHART, namespace, "app", denied)
        gone, asked = not stored.exists(), server.counts.total()
        await space.request(helm.HELM_CHART)
        again = server.counts.total()
        await world.api.delete(POLICY, namespace, "")
        await space.ready(helm.HELM_CHART)

    message = condition(obj, "Ready")["message"]
    assert kept
    assert gone
    assert again == asked
    assert not dig(obj, "status", "artifact")
    assert "allowed are oci://registry.example/**" in message
    assert f"SourcePolicy '{namespace}'" in message
