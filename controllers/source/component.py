"""The source component: reconciles every kind of ``SOURCES`` and serves the artifacts.

The artifact server listens only on the elected replica, because the local store is its own disk.
"""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from controllers import services
from controllers.source import includes
from controllers.source.gitrepository import GitRepositorySource
from controllers.source.reconciler import SourceReconciler
from crds import GIT_REPOSITORY
from crds.source import GitRepository
from toolkit.artifact import server
from toolkit.artifact.storage import Storage
from toolkit.events import Recorder
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.secrets import Secrets
from toolkit.native.pool import WorkerPool
from toolkit.objects import ObjectKey
from toolkit.remote.git import GitClient
from toolkit.remote.github import GitHubTokens

ACCOUNT: Final = "source-controller"
_GROUP: Final = "source.toolkit.fluxcd.io"
_KINDS: Final = ("gitrepositories",)

CLUSTER_PERMISSIONS: Final = (
    # The sources themselves; patch puts the finalizer and the status.
    Rule(groups=(_GROUP,), resources=_KINDS, verbs=("get", "list", "watch", "patch")),
    Rule(
        groups=(_GROUP,),
        resources=tuple(f"{kind}/status" for kind in _KINDS),
        verbs=("get", "patch"),
    ),
    # Credentials are read when a source names them, never listed.
    Rule(groups=("",), resources=("secrets",), verbs=("get",)),
    Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
)
NAMESPACE_PERMISSIONS: Final = (
    Rule(groups=("coordination.k8s.io",), resources=("leases",), verbs=("get", "create", "update")),
)
_SCRATCH: Final = ".scratch-"
_CONCURRENT: Final = 2
_WORKER_MEMORY: Final = 256 << 20
"""As ``toolkit.remote.gitworker`` wants it, which to import would load a Git library here."""


async def start(manager: Manager, options: Options) -> None:
    """Wire the source reconcilers, their workers and the artifact server into the manager."""
    root = Path(options.storage_path or "/data")
    storage = Storage(
        root,
        advertised=options.storage_adv_addr or f"{ACCOUNT}.{manager.namespace}.svc",
        retention_ttl=options.artifact_retention_ttl,
        retention_records=options.artifact_retention_records,
    )
    pool = WorkerPool(
        "toolkit.remote.gitworker",
        size=(options.concurrent or _CONCURRENT) + 1,  # as many as passes run at once
        memory_limit=_WORKER_MEMORY,
    )
    recorder = Recorder(manager.client, controller=ACCOUNT, address=options.events_addr)
    secrets = Secrets(manager.client)
    # a name of its own: the leader may be at work on the same volume
    scratch = root / f"{_SCRATCH}{manager.identity.rpartition('_')[2]}"

    def lookup(key: ObjectKey) -> GitRepository | None:
        return controller.informer.get(key)

    git = GitRepositorySource(
        kind=GIT_REPOSITORY,
        git=GitClient(pool),
        tokens=GitHubTokens(),
        secrets=secrets,
        storage=storage,
        lookup=lookup,
        plain_http=options.insecure_allow_http,
    )
    reconciler = SourceReconciler(git, storage, scratch=scratch)
    controller = Controller(
        kind=GIT_REPOSITORY,
        client=manager.client,
        reconcile=reconciler.reconcile,
        finalize=reconciler.finalize,
        options=options.controller(concurrent=_CONCURRENT, namespace=manager.namespace),
        recorder=recorder,
        field_manager=f"gotk-{ACCOUNT}",
    )
    controller.informer.subscribe(_wake_including(controller))
    manager.add_service(recorder.run)
    manager.add_service(services.closing(pool.close))
    manager.add_controller(controller, lease=ACCOUNT)
    manager.add_elected(lambda: _clean(root, keep=scratch), lease=ACCOUNT)
    manager.add_elected(
        services.serving(server.application(storage), options.storage_addr), lease=ACCOUNT
    )


async def _clean(root: Path, *, keep: Path) -> None:
    """Remove what killed processes left half-done; only the leader has work of its own there."""
    for leftover in await asyncio.to_thread(lambda: list(root.glob(f"{_SCRATCH}*"))):
        if leftover != keep:
            await asyncio.to_thread(shutil.rmtree, leftover, ignore_errors=True)


def _wake_including(
    controller: Controller[GitRepository],
) -> Callable[[Change[GitRepository]], None]:
    """Reconcile who includes a repository when that has a new artifact."""

    def handle(change: Change[GitRepository]) -> None:
        before = change.old.status.artifact if change.old else None
        after = change.new.status.artifact if change.new else None
        if after is None or (before and includes.same(before, after)):
            return
        for key, other in controller.informer.items().items():
            if key.namespace != change.key.namespace:
                continue
            if any(include.repository.name == change.key.name for include in other.spec.include):
                controller.enqueue(key, "source")

    return handle
