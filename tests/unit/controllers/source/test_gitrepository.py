"""What a GitRepository may ask for, decided before anything is asked of a server."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from controllers.access.gitaccess import GitAccess
from controllers.source.gitrepository import GitRepositorySource
from crds import GIT_REPOSITORY
from crds.meta import LocalObjectReference
from crds.source import (
    GitRepository,
    GitRepositoryRef,
    GitRepositorySpec,
    GitRepositoryVerification,
)
from toolkit.errors import StalledError, TransientError
from toolkit.kube.secrets import Data
from toolkit.objects import GroupVersionKind
from toolkit.remote.git.git import GitClient
from toolkit.remote.git.worker import operations


class Untouched:
    """Stands for what must not be used."""


UNUSED: Any = Untouched()


class Inline:
    """Runs the operations of a Git worker in this process."""

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109  # a pool's
        assert timeout > 0
        return operations()[op](payload)


class Given:
    """``Secrets`` that all hold the same data."""

    def __init__(self, data: Mapping[str, bytes]) -> None:
        self._data = data

    async def read(self, _namespace: str, _name: str, *, reason: str) -> Mapping[str, bytes]:
        assert reason == "AuthenticationFailed"
        return self._data

    async def data(self, gvk: GroupVersionKind, _namespace: str, name: str, *, reason: str) -> Data:
        raise TransientError(f"no {gvk.kind} {name}", reason=reason)


def source(*, plain_http: bool = True, **data: bytes) -> GitRepositorySource:
    """Return the source in a place where every Secret holds ``data``."""
    nothing: Any = Untouched()
    secrets: Any = Given(data)
    return GitRepositorySource(
        kind=GIT_REPOSITORY,
        git=nothing,
        access=GitAccess(
            secrets=secrets,
            github=nothing,
            cloud=nothing,
            identity=nothing,
            plain_http=plain_http,
        ),
        secrets=secrets,
        store=nothing,
        lookup=lambda *_: None,
        signatures=nothing,
    )


def repository(**spec: Any) -> GitRepository:
    return GitRepository(spec=GitRepositorySpec(interval="1m", **spec))


async def test_plain_http_can_be_forbidden() -> None:
    with pytest.raises(StalledError, match="insecure-allow-http") as caught:
        await source(plain_http=False).resolve(repository(url="http://git.test/app"), UNUSED)

    assert caught.value.reason == "InsecureConnectionsDisallowed"


async def test_app_in_a_secret_needs_the_provider_that_uses_it() -> None:
    obj = repository(url="https://git.test/app", secret_ref=LocalObjectReference(name="app"))

    with pytest.raises(TransientError, match=r"spec\.provider to 'github'") as caught:
        await source(githubAppID=b"7").resolve(obj, UNUSED)

    assert caught.value.reason == "InvalidProviderConfiguration"


async def test_keys_are_read_before_the_server_is_asked() -> None:
    verify = GitRepositoryVerification(secret_ref=LocalObjectReference(name="trusted"))

    with pytest.raises(TransientError, match="no Secret trusted") as caught:
        await source().resolve(repository(url="https://git.test/app", verify=verify), UNUSED)

    assert caught.value.reason == "VerificationError"


async def test_a_commit_that_only_the_spec_names_is_not_told_to_be_at_an_address() -> None:
    pinned = repository(url="https://git.test/app", ref=GitRepositoryRef(commit="a" * 40))
    asked = dataclasses.replace(source(), git=GitClient(Inline()))

    upstream = await asked.resolve(pinned, UNUSED)

    assert upstream.revision == "sha1:" + "a" * 40
    assert not upstream.content_addressed
