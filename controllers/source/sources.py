"""The kinds of sources. A new kind needs a module and a row in ``SOURCES``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from controllers.access.accounts import Accounts
from controllers.access.gitaccess import GitAccess
from controllers.access.registries import Registries
from controllers.source import charts, helmchart, helmrepository, includes
from controllers.source.bucket import BucketSource
from controllers.source.bucketplace import Places
from controllers.source.charging import Charging
from controllers.source.chartaccess import ChartAccess
from controllers.source.chartdependencies import Dependencies
from controllers.source.gitrepository import GitRepositorySource
from controllers.source.helmchart import HelmChartSource
from controllers.source.helmrepository import HelmRepositorySource
from controllers.source.ocirepository import OCIRepositorySource
from controllers.source.source import Source, SourceObject
from crds import BUCKET, GIT_REPOSITORY, HELM_CHART, HELM_REPOSITORY, OCI_REPOSITORY
from crds.kind import Kind
from toolkit.artifact.store import Store
from toolkit.chart.charts import Charts
from toolkit.kube.secrets import Secrets
from toolkit.objects import ObjectKey
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.git.git import GitClient
from toolkit.remote.git.github import GitHubTokens
from toolkit.remote.http.http import Http
from toolkit.verify.gitsignatures import GitSignatures
from toolkit.verify.verifications import Verifications

Parents = Iterable[tuple[str, str]]
"""Kind and name of sources, in the same namespace, from which another source is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that all kinds of sources use.

    ``plain_http`` allows servers without TLS (``--insecure-allow-http``). ``charging`` is None if
    namespaces have no storage quota.
    """

    plain_http: bool
    secrets: Secrets
    accounts: Accounts
    cloud: Cloud
    store: Store
    lookup: Callable[[str, ObjectKey], SourceObject | None]
    listing: Callable[[str, str], Iterable[SourceObject]]
    http: Http
    registries: Registries
    verifications: Verifications
    signatures: GitSignatures
    git: GitClient
    github: GitHubTokens
    charts: Charts
    charging: Charging | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of source.

    - ``make`` builds its implementation.
    - ``parents`` returns the sources from which an object is made.
    - ``static`` tells whether an object is never reconciled.
    - ``held`` tells whether an object gets a finalizer, until its artifacts are deleted.
    """

    kind: Kind[Any]
    make: Callable[[Services], Source[Any, Any]]
    parents: Callable[[Any], Parents] = lambda _: ()
    static: Callable[[Any], bool] = lambda _: False
    held: Callable[[Any], bool] = lambda _: True


def _git(services: Services) -> GitRepositorySource:
    access = GitAccess(
        secrets=services.secrets,
        github=services.github,
        cloud=services.cloud,
        identity=services.accounts.identity,
        plain_http=services.plain_http,
    )
    return GitRepositorySource(
        kind=GIT_REPOSITORY,
        git=services.git,
        access=access,
        secrets=services.secrets,
        store=services.store,
        lookup=services.lookup,
        signatures=services.signatures,
    )


def _oci(services: Services) -> OCIRepositorySource:
    return OCIRepositorySource(
        kind=OCI_REPOSITORY,
        registries=services.registries,
        secrets=services.secrets,
        verify=services.verifications.verify,
    )


def _bucket(services: Services) -> BucketSource:
    places = Places(
        secrets=services.secrets,
        cloud=services.cloud,
        accounts=services.accounts,
        plain_http=services.plain_http,
    )
    return BucketSource(kind=BUCKET, places=places)


def _helm_repository(services: Services) -> HelmRepositorySource:
    return HelmRepositorySource(
        kind=HELM_REPOSITORY,
        http=services.http,
        charts=services.charts,
        access=_chart_access(services),
    )


def _helm_chart(services: Services) -> HelmChartSource:
    shared = charts.Services(
        http=services.http,
        charts=services.charts,
        store=services.store,
        access=_chart_access(services),
    )
    return HelmChartSource(
        kind=HELM_CHART,
        services=shared,
        dependencies=Dependencies(services=shared, listing=services.listing),
        secrets=services.secrets,
        verify=services.verifications.verify,
        lookup=services.lookup,
        charging=services.charging,
    )


def _chart_access(services: Services) -> ChartAccess:
    return ChartAccess(
        secrets=services.secrets, registries=services.registries, plain_http=services.plain_http
    )


SOURCES: Final = (
    # A reference of a Git repository.
    Row(kind=GIT_REPOSITORY, make=_git, parents=includes.parents),
    # An artifact in a registry.
    Row(kind=OCI_REPOSITORY, make=_oci),
    # The objects of a bucket.
    Row(kind=BUCKET, make=_bucket),
    # The index of a chart repository.
    Row(kind=HELM_REPOSITORY, make=_helm_repository, static=helmrepository.static),
    # One chart, from a HelmRepository, a GitRepository or a Bucket.
    Row(kind=HELM_CHART, make=_helm_chart, parents=helmchart.parents, held=helmchart.held),
)
