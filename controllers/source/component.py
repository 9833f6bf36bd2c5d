"""The source component: wires the controllers of all ``SOURCES`` and the artifact server.

With the local store only the leader serves artifacts, because the files are on its own disk. With a
bucket every replica serves them.
"""

import asyncio
import functools
import shutil
from pathlib import Path
from typing import Any, Final

from controllers import sourcepolicies, waking
from controllers.outside import Outside, connect
from controllers.source import artifactgenerator, externalartifact, pushed, services
from controllers.source.family import Family
from controllers.source.reconciler import SourceReconciler
from controllers.source.sources import SOURCES, Row
from controllers.sourcepolicies import SourcePolicies
from crds import (
    ARTIFACT_GENERATOR,
    EXTERNAL_ARTIFACT,
    GIT_REPOSITORY,
    HELM_RELEASE,
    HELM_REPOSITORY,
)
from toolkit.artifact import backend, index, server
from toolkit.artifact.access import Access
from toolkit.artifact.index import Indexes
from toolkit.artifact.uploads import Uploads
from toolkit.events import Recorder
from toolkit.kube import rbac, undecoded
from toolkit.kube.controller import Controller
from toolkit.kube.manager import Manager, serve
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.net.connections import Limits

ACCOUNT: Final = "source-controller"
_GROUP: Final = "source.toolkit.fluxcd.io"
_KINDS: Final = tuple(row.kind.plural for row in SOURCES)

CLUSTER_PERMISSIONS: Final = (
    # The sources themselves; patch sets the finalizer and the status.
    Rule(groups=(_GROUP,), resources=_KINDS, verbs=("get", "list", "watch", "patch")),
    Rule(
        groups=(_GROUP,),
        resources=tuple(f"{kind}/status" for kind in _KINDS),
        verbs=("get", "patch", "update"),
    ),
    # Authenticate and authorize clients that upload artifacts or list retained revisions.
    Rule(groups=("authentication.k8s.io",), resources=("tokenreviews",), verbs=("create",)),
    Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
    # Find the HelmRelease that asked for a HelmChart: its namespace is charged for the storage.
    Rule(groups=(HELM_RELEASE.group,), resources=(HELM_RELEASE.plural,), verbs=("get",)),
    *sourcepolicies.PERMISSIONS,
    *externalartifact.PERMISSIONS,
    *artifactgenerator.PERMISSIONS,
    *pushed.PERMISSIONS,
    Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
)
WORKLOAD_IDENTITY_PERMISSIONS: Final = (
    # With --feature-gates=ObjectLevelWorkloadIdentity=true, authenticate as service accounts at
    # cloud providers.
    Rule(groups=("",), resources=("serviceaccounts/token",), verbs=("create",)),
)
"""Only the component ``workload-identity`` grants these: they allow acting as any account."""
TENANT_PERMISSIONS: Final = (
    # Credentials, and service accounts with their pull Secrets. They are read by name, not listed.
    Rule(groups=("",), resources=("secrets", "serviceaccounts"), verbs=("get",)),
)
"""Permissions in each namespace with sources; see ``deploy/components/by-namespace``."""
NAMESPACE_PERMISSIONS: Final = rbac.lease(ACCOUNT)
_SCRATCH: Final = ".scratch-"
_CONCURRENT: Final = 2
_CONNECTIONS: Final = 256
"""Twice the number of clients that are served at a time (``toolkit.artifact.server``)."""


async def start(manager: Manager, options: Options) -> None:
    """Wire the source reconcilers, their workers and the artifact server into the manager."""
    root = Path(options.storage_path or "/data")
    outside = await connect(manager, options, default_account=options.default_service_account)
    opened = await _open_store(manager, options, outside, root)
    # Each process has its own directory, because the leader may use the same volume.
    scratch = root / f"{_SCRATCH}{manager.identity.rpartition('_')[2]}"
    indexes = opened.local(HELM_REPOSITORY.kind)
    await asyncio.to_thread(indexes.mkdir, parents=True, exist_ok=True)  # Workers may read it.
    recorder = Recorder(manager.client, controller=ACCOUNT, address=options.events_addr)
    policies = SourcePolicies.follow(manager)
    family = Family()
    shared = services.start(
        manager,
        options,
        outside=outside,
        store=opened.store,
        indexes=indexes,
        scratch=scratch,
        passes=(options.concurrent or _CONCURRENT) + 1,
        lookup=family.lookup,
        listing=family.listing,
    )
    for row in SOURCES:
        reconciler = SourceReconciler(
            row.make(shared),
            opened.store,
            scratch=scratch / row.kind.kind,
            policy=policies,
            parents=family.parents(row),
        )
        family.members[row.kind.kind] = _controller(manager, options, row, reconciler, recorder)
    family.wake_children()
    policies.subscribe(waking.by_policy(family.members.values()))
    pushed.follow(manager, options, family.members[GIT_REPOSITORY.kind].enqueue)
    manager.add_service(recorder.run)
    for controller in family.members.values():
        manager.add_controller(controller, lease=ACCOUNT)
    manager.add_elected(lambda: _clean(root, keep=scratch), lease=ACCOUNT)
    parts = bool(options.watch_label_selector)
    for janitor in family.janitors(manager.client, opened.store, parts=parts):
        manager.add_elected(janitor.run, lease=ACCOUNT)
    external = externalartifact.start(manager, options, store=opened.store, lease=ACCOUNT)
    told = functools.partial(undecoded.tell, EXTERNAL_ARTIFACT, external, recorder)
    manager.add_elected(told, lease=ACCOUNT)
    informers = {kind: controller.informer for kind, controller in family.members.items()}
    await artifactgenerator.start(
        manager,
        options,
        store=opened.store,
        recorder=recorder,
        informers={**informers, EXTERNAL_ARTIFACT.kind: external},
        policies=policies,
        scratch=scratch / ARTIFACT_GENERATOR.kind,
        lease=ACCOUNT,
    )
    _serve(manager, options, opened, scratch)


async def _open_store(
    manager: Manager, options: Options, outside: Outside, root: Path
) -> backend.Opened:
    """Open the store that the flags select; it is closed at the end of the process."""
    opened = await backend.open_store(
        options.storage_backend,
        backend.Settings(
            root=root,
            advertised=options.storage_adv_addr or f"{ACCOUNT}.{manager.namespace}.svc",
            retention_ttl=options.artifact_retention_ttl,
            retention_records=options.artifact_retention_records,
            namespace_bytes=options.storage_namespace_quota,
        ),
        cloud=outside.cloud,
    )
    manager.until_end.push_async_callback(opened.close)
    return opened


def _controller(
    manager: Manager,
    options: Options,
    row: Row,
    reconciler: SourceReconciler[Any, Any],
    recorder: Recorder,
) -> Controller[Any]:
    return Controller(
        kind=row.kind,
        client=manager.client,
        reconcile=reconciler.reconcile,
        finalize=reconciler.finalize,
        options=options.controller(concurrent=_CONCURRENT, namespace=manager.namespace),
        recorder=recorder,
        field_manager=f"gotk-{ACCOUNT}",
        static=row.static,
        held=row.held,
    )


def _serve(manager: Manager, options: Options, opened: backend.Opened, scratch: Path) -> None:
    """Serve artifacts and the lists of retained revisions, and accept uploads."""
    uploads = Uploads(
        opened.store, access=Access(manager.client), objects=manager.client, scratch=scratch
    )
    indexes = Indexes(opened.store, access=Access(manager.client, audience=index.AUDIENCE))
    application = server.application(opened.store, uploads=uploads, indexes=indexes)
    run = functools.partial(serve, application, options.storage_addr, Limits.fitting(_CONNECTIONS))
    if opened.shared:
        manager.add_service(run)
    else:
        manager.add_elected(run, lease=ACCOUNT)


async def _clean(root: Path, *, keep: Path) -> None:
    """Remove the scratch directories of ended processes; only the leader uses its own."""
    for leftover in await asyncio.to_thread(lambda: list(root.glob(f"{_SCRATCH}*"))):
        if leftover != keep:
            await asyncio.to_thread(shutil.rmtree, leftover, ignore_errors=True)
