"""What policies of the cluster say of a source, and who is told when that may have changed."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from controllers.sourcepolicies import SourcePolicies
from crds.source import GitRepository
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.policing import INSTALLED, Policing, Process, policing
from toolkit.errors import AccessDeniedError, WaitingError
from toolkit.objects import Json
from toolkit.policy import origins

ALLOWED: Json = {"kind": "GitRepository", "urls": ["https://git.example/**"]}
EVIL = "https://evil.example/app"


def source(url: str = EVIL, *, namespace: str = "team") -> GitRepository:
    body = {
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"interval": "1m", "url": url},
    }
    return msgspec.convert(body, GitRepository)


def fetched_from(url: str) -> dict[str, str]:
    """Return the metadata of an artifact that was fetched from an address."""
    return {origins.RECORD: origins.record(origins.own(msgspec.to_builtins(source(url))), ())}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Policing]:
    async with policing() as made:
        yield made


async def test_nothing_is_said_before_policies_are_known() -> None:
    async with FakeApiServer().running() as client:
        process: Any = Process(client)
        followed = SourcePolicies.follow(process)

        for ask in (
            lambda: followed.check(source()),
            lambda: followed.check_artifact(source(), {}),
            lambda: followed.labels("team"),
        ):
            with pytest.raises(WaitingError, match="not read yet") as caught:
                ask()
            assert caught.value.reason == "DependencyNotReady"


async def test_without_policies_everything_may_be_fetched_and_offered(cluster: Policing) -> None:
    assert cluster.sources.check(source()) == ()
    assert cluster.sources.check_artifact(source(), {}) == ()


async def test_forbidden_source_is_refused_with_its_name_and_the_policy(cluster: Policing) -> None:
    await cluster.put(ALLOWED)

    with pytest.raises(AccessDeniedError) as caught:
        cluster.sources.check(source())

    assert "GitRepository 'team/app': " in str(caught.value)
    assert "SourcePolicy 'tenants'" in str(caught.value)
    assert "allowed are https://git.example/**" in str(caught.value)
    assert cluster.sources.check(source("https://git.example/app")) == ()


async def test_artifact_is_refused_by_where_it_was_fetched(cluster: Policing) -> None:
    await cluster.put(ALLOWED)
    renamed = source("https://git.example/app")

    with pytest.raises(AccessDeniedError, match=f"fetched from '{EVIL}'"):
        cluster.sources.check_artifact(renamed, fetched_from(EVIL))


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
async def test_policy_that_does_not_enforce_forbids_nothing(cluster: Policing, mode: str) -> None:
    await cluster.put(ALLOWED, mode=mode)

    (told,) = cluster.sources.check(source())
    (fetched,) = cluster.sources.check_artifact(source(), fetched_from(EVIL))

    assert "SourcePolicy 'tenants'" in str(told)
    assert EVIL in str(fetched)


async def test_policy_holds_where_the_labels_of_the_namespace_say(cluster: Policing) -> None:
    await cluster.put(ALLOWED, namespaceSelector={"matchLabels": {"tenant": "yes"}})
    before = cluster.sources.check(source())

    await cluster.label("team", tenant="yes")
    with pytest.raises(AccessDeniedError):
        cluster.sources.check(source())
    await cluster.label("team", tenant="no")

    assert before == cluster.sources.check(source()) == ()


async def test_policy_without_a_selector_leaves_the_install_namespace_alone(
    cluster: Policing,
) -> None:
    await cluster.put(ALLOWED)

    assert cluster.sources.check(source(namespace=INSTALLED)) == ()


async def test_changes_of_policies_and_labels_are_told_and_others_are_not(
    cluster: Policing,
) -> None:
    told: list[str] = []
    cluster.sources.subscribe(told.append)

    async def news(*awaited: str) -> None:
        assert told == list(awaited)
        told.clear()

    await cluster.put(ALLOWED)
    await news("")
    await cluster.put(ALLOWED)  # another version of the same
    await news()
    await cluster.put(ALLOWED, mode="Warn")
    await news("")
    await cluster.label("team", tenant="yes")
    await news("team")
    await cluster.label("team", tenant="yes")
    await news()
    await cluster.drop()
    await news("")
