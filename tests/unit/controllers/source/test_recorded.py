"""Golden cases: what source-controller 1.10 (Flux 2.9) says of failures, beside what ours does.

Each row names the place in ``internal`` that it was read from. Messages are compared by their
beginning: what we say beyond it follows.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllers.access.gitaccess import GitAccess
from controllers.source import beginnings, includes
from controllers.source.bucketplace import Places
from controllers.source.charts import stored
from controllers.source.gitrepository import GitRepositorySource
from controllers.source.helmrepository import HelmRepositorySource
from controllers.source.ocirepository import OCIRepositorySource
from crds import GIT_REPOSITORY, HELM_REPOSITORY, OCI_REPOSITORY
from crds.meta import Artifact, LocalObjectReference, ObjectMeta
from crds.source import (
    GitRepository,
    GitRepositoryInclude,
    GitRepositorySpec,
    GitRepositoryStatus,
)
from crds.source_bucket import Bucket, BucketSpec
from crds.source_helm import HelmRepository, HelmRepositorySpec
from crds.source_oci import OCIRepository, OCIRepositorySpec
from tests.fakes.apiserver import FakeApiServer
from toolkit.artifact import layout
from toolkit.chart import errors as charts
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
from toolkit.kube import verdict
from toolkit.kube.secrets import Secrets
from toolkit.remote.git.errors import EmptyRepositoryError, GitAuthError, GitError
from toolkit.remote.oci.errors import RegistryError
from toolkit.verify.signature import VerificationError

CHECKOUT = "failed to checkout and determine revision: "
URL = "https://ada:s3cret-horse@git.test/app"
UNUSED: Any = None
STORED = Artifact(
    digest="sha256:0",
    last_update_time="2026-01-01T00:00:00Z",
    path="gitrepository/apps/app/1.tar.gz",
    revision="main@sha1:1",
    url="http://artifacts.test/gitrepository/apps/app/1.tar.gz",
)


class Failing:
    """A Git client whose server answers with an error."""

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    async def resolve(self, *_: Any, **__: Any) -> Any:
        raise self._error


class Lending:
    """A GitHub and a cloud that lent nothing."""

    def drop(self, _: Any) -> bool:
        return False


def repository(*, artifact: Artifact | None = None, **spec: Any) -> GitRepository:
    return GitRepository(
        metadata=ObjectMeta(name="app", namespace="apps"),
        spec=GitRepositorySpec(interval="1m", url=URL, **spec),
        status=GitRepositoryStatus(artifact=artifact),
    )


def git(error: PenstockError, secrets: Any = UNUSED) -> GitRepositorySource:
    lending: Any = Lending()
    client: Any = Failing(error)
    return GitRepositorySource(
        kind=GIT_REPOSITORY,
        git=client,
        access=GitAccess(secrets=secrets, github=lending, cloud=lending, identity=UNUSED),
        secrets=secrets,
        store=UNUSED,
        lookup=lambda *_: None,
        signatures=UNUSED,
    )


@pytest.mark.parametrize(
    ("error", "artifact", "reason", "begins"),
    [
        # controller/gitrepository_controller.go gitCheckout; fluxcd/pkg git/gogit/clone.go
        (
            GitAuthError("'https://git.test/app' refused the credentials (HTTP 401)"),
            None,
            "GitOperationFailed",
            f"{CHECKOUT}unable to clone 'https://git.test/app': ",
        ),
        (
            GitError("cannot reach it"),
            None,
            "GitOperationFailed",
            f"{CHECKOUT}unable to clone 'https://git.test/app': ",
        ),
        # getLastRevision, once there is a commit to compare with
        (
            GitError("cannot reach it"),
            STORED,
            "GitOperationFailed",
            f"{CHECKOUT}unable to list remote for 'https://git.test/app': ",
        ),
        # reconcileSource
        (EmptyRepositoryError("x"), None, "EmptyGitRepository", "git repository is empty"),
    ],
    ids=["401", "unreachable", "unreachable later", "empty"],
)
async def test_a_git_server_that_fails_is_told_as_flux_does(
    error: PenstockError, artifact: Artifact | None, reason: str, begins: str
) -> None:
    with pytest.raises(TransientError) as caught:
        await git(error).resolve(repository(artifact=artifact), UNUSED)

    assert caught.value.reason == reason
    assert str(caught.value).startswith(begins)
    assert "horse" not in str(caught.value)
    assert isinstance(caught.value, type(error))


async def test_a_missing_secret_is_told_as_flux_does() -> None:
    # controller/gitrepository_controller.go getAuthOpts
    obj = repository(secret_ref=LocalObjectReference(name="login"))
    async with FakeApiServer().running() as client:
        with pytest.raises(TransientError) as caught:
            await git(GitError("unasked"), Secrets(client)).resolve(obj, UNUSED)

    assert caught.value.reason == "AuthenticationFailed"
    assert str(caught.value).startswith("failed to get secret 'apps/login': ")


@pytest.mark.parametrize(
    ("other", "reason", "begins"),
    [
        # controller/gitrepository_controller.go fetchIncludes
        (None, "NotFound", "could not get resource for include 'base': "),
        (repository(), "NoArtifact", "no artifact available for include 'base'"),
    ],
    ids=["missing", "without artifact"],
)
async def test_an_include_is_waited_for_as_flux_does(
    other: GitRepository | None, reason: str, begins: str
) -> None:
    include = GitRepositoryInclude(repository=LocalObjectReference(name="base"))

    with pytest.raises(WaitingError) as caught:
        await includes.find(repository(include=(include,)), lambda *_: other, UNUSED)

    assert caught.value.reason == reason
    assert str(caught.value).startswith(begins)


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        # helm/chart/errors.go
        (charts.ChartReferenceError("x"), "invalid chart reference: "),
        (charts.ChartPullError("x"), "chart pull error: "),
        (charts.MetadataPatchError("x"), "chart metadata patch error: "),
        (charts.ValuesFilesError("x"), "values files merge error: "),
        (charts.DependencyBuildError("x"), "dependency build error: "),
        (charts.ChartPackageError("x"), "chart package error: "),
        (VerificationError("x", reason="ChartVerificationError"), "chart verification error: "),
        (TransientError("x", reason="SourceUnavailable"), "x"),
    ],
    ids=lambda value: getattr(value, "reason", ""),
)
def test_a_chart_that_fails_is_told_as_flux_does(error: PenstockError, begins: str) -> None:
    with pytest.raises(type(error)) as caught, beginnings.of_chart():
        raise error

    assert str(caught.value) == begins.removesuffix("x") + "x"
    assert caught.value.reason == error.reason


def test_a_source_without_artifact_is_no_news_for_notifications() -> None:
    # controller/helmchart_controller.go reconcileSource: EventTypeTrace
    with pytest.raises(WaitingError) as caught:
        stored(repository(), "GitRepository")

    judged = verdict.failed(
        caught.value, requeue_dependency=30, retry_interval=None, reconcile_id="pass"
    )
    assert (judged.reason, judged.severity) == ("NoSourceArtifact", "trace")


async def test_a_registry_without_the_type_oci_stalls_as_in_flux() -> None:
    # controller/helmrepository_controller.go reconcileSource
    source = HelmRepositorySource(kind=HELM_REPOSITORY, http=UNUSED, charts=UNUSED, access=UNUSED)
    obj = HelmRepository(spec=HelmRepositorySpec(url="oci://ghcr.io/org/charts"))

    with pytest.raises(StalledError) as caught:
        await source.resolve(obj, UNUSED)

    assert caught.value.reason == "URLInvalid"
    assert str(caught.value).startswith(
        "invalid Helm repository URL: 'oci' URL scheme cannot be used with 'default' "
        "HelmRepository type"
    )


class FailingRegistries:
    """Registries that cannot be entered, or do not answer."""

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    @asynccontextmanager
    async def open(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        if self._error.reason == "AuthenticationFailed":
            raise self._error
        yield Failing(self._error)


@pytest.mark.parametrize(
    ("url", "error", "reason", "begins"),
    [
        # controller/ocirepository_controller.go reconcileSource
        (
            "oci://ghcr.io/org/app:1.0",
            RegistryError("unasked"),
            "URLInvalid",
            "URL validation failed for 'oci://ghcr.io/org/app:1.0': ",
        ),
        (
            "oci://ghcr.io/org/app",
            TransientError(
                "failed to get secret 'apps/login': not found", reason="AuthenticationFailed"
            ),
            "AuthenticationFailed",
            "failed to get credential: failed to get secret 'apps/login': ",
        ),
        (
            "oci://ghcr.io/org/app",
            RegistryError("no answer"),
            "OCIArtifactPullFailed",
            "failed to determine artifact digest: ",
        ),
    ],
    ids=["URL", "credential", "digest"],
)
async def test_a_registry_that_fails_is_told_as_flux_does(
    url: str, error: PenstockError, reason: str, begins: str
) -> None:
    registries: Any = FailingRegistries(error)
    source = OCIRepositorySource(
        kind=OCI_REPOSITORY, registries=registries, secrets=UNUSED, verify=UNUSED
    )
    obj = OCIRepository(spec=OCIRepositorySpec(interval="1m", url=url))

    with pytest.raises(PenstockError) as caught:
        await source.resolve(obj, UNUSED)

    assert caught.value.reason == reason
    assert str(caught.value).startswith(begins)


async def test_a_missing_secret_of_a_bucket_is_told_as_flux_does() -> None:
    # controller/bucket_controller.go getSecret
    spec = BucketSpec(
        interval="1m",
        endpoint="minio.test",
        bucket_name="data",
        secret_ref=LocalObjectReference(name="login"),
    )
    obj = Bucket(metadata=ObjectMeta(name="app", namespace="apps"), spec=spec)
    async with FakeApiServer().running() as client:
        places = Places(secrets=Secrets(client), cloud=UNUSED, accounts=UNUSED)
        with pytest.raises(TransientError) as caught:
            await places.find(obj)

    assert caught.value.reason == "AuthenticationFailed"
    assert str(caught.value).startswith("failed to get secret 'apps/login': ")


@pytest.mark.parametrize(
    ("filename", "link"),
    [
        # controller/*_controller.go reconcileArtifact, Storage.Symlink
        ("demo-1.0.0.tgz", "latest.tar.gz"),
        ("sha256:0.tar.gz", "latest.tar.gz"),
        ("index-0.yaml", "index.yaml"),
    ],
)
def test_the_newest_artifact_has_the_name_of_flux(filename: str, link: str) -> None:
    assert layout.latest(filename) == link
