"""Services shared by the source reconcilers, built from the flags and closed with the process."""

from collections.abc import Callable, Iterable
from pathlib import Path

from controllers.access.accounts import Accounts
from controllers.access.registries import Registries
from controllers.outside import Outside
from controllers.source.charging import Charging
from controllers.source.source import SourceObject
from controllers.source.sources import Services
from crds import GIT_REPOSITORY, HELM_CHART, HELM_REPOSITORY
from toolkit.artifact.store import Store
from toolkit.chart import charts
from toolkit.chart.charts import Charts
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.secrets import Secrets
from toolkit.native import calls, cores
from toolkit.native.pool import WorkerPool
from toolkit.objects import ObjectKey
from toolkit.remote.git import git
from toolkit.remote.git.git import GitClient
from toolkit.remote.git.github import GitHubTokens
from toolkit.remote.oci.tokens import Tokens
from toolkit.verify import gitsignatures
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.gitsignatures import GitSignatures
from toolkit.verify.notation.revocation import Responders
from toolkit.verify.verifications import Means, Verifications


def start(  # noqa: PLR0913 - the parts that the component has
    manager: Manager,
    options: Options,
    *,
    outside: Outside,
    store: Store,
    indexes: Path,
    scratch: Path,
    passes: int,
    lookup: Callable[[str, ObjectKey], SourceObject | None],
    listing: Callable[[str, str], Iterable[SourceObject]],
) -> Services:
    """Return the services.

    ``passes`` is the number of concurrent reconciliations of each kind. ``indexes`` is the
    directory with the stored indexes of charts. Reconciliations of a kind use the subdirectory of
    ``scratch`` with the name of the kind.
    """
    fetching = git.start(size=passes, writes=(scratch / GIT_REPOSITORY.kind,))
    # Both HelmRepositories and HelmCharts use these workers.
    charting = charts.start(
        size=2 * passes,
        reads=(indexes,),
        writes=(scratch / HELM_REPOSITORY.kind, scratch / HELM_CHART.kind),
    )
    engine = calls.start(size=cores.available())
    judging = gitsignatures.start()
    for pool in (fetching, charting, engine, judging):
        manager.until_end.push_async_callback(pool.close)
    secrets = Secrets(manager.client)
    accounts = Accounts(client=manager.client, tokens=outside.tokens)
    return Services(
        plain_http=options.insecure_allow_http,
        secrets=secrets,
        accounts=accounts,
        cloud=outside.cloud,
        store=store,
        lookup=lookup,
        listing=listing,
        http=outside.http,
        registries=Registries(
            http=outside.http,
            tokens=Tokens(),
            secrets=secrets,
            pull_secrets=accounts.pull_secrets,
            identity=accounts.identity,
            cloud=outside.cloud,
            plain_http=options.insecure_allow_http,
        ),
        # Refusals are not cached: a user who signs a refused artifact and requests a
        # reconciliation gets a new answer at once.
        verifications=Verifications(
            _means(options, outside, engine, scratch / "sigstore"), refusal_seconds=0
        ),
        signatures=GitSignatures(judging),
        git=GitClient(fetching),
        github=GitHubTokens(outside.http),
        charts=Charts(charting),
        charging=Charging(manager.client) if options.storage_namespace_quota else None,
    )


def _means(options: Options, outside: Outside, pool: WorkerPool, cache: Path) -> Means:
    """Return the means to verify artifacts in registries."""
    return Means(
        public_root=PublicRoot(cache=cache, offline=options.sigstore_offline),
        pool=pool,
        revocations=Responders(
            outside.http, allow_private=options.allow_private_revocation_servers
        ),
    )
