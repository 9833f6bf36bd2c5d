"""The kustomize component: wires the Kustomization controller, its watches and its workers."""

import functools
import os
from collections.abc import Callable, Mapping
from typing import Final

from controllers import grants
from controllers.applying import dependencies, wiring
from controllers.applying.accounts import Accounts
from controllers.applying.admission import Admission, decrypting
from controllers.applying.clusters import Clusters
from controllers.applying.dependencies import Dependent, Gate
from controllers.applying.identity import Identities
from controllers.applying.triggers import Triggers
from controllers.kustomize import uses
from controllers.kustomize.decryption import Decryption
from controllers.kustomize.deleting import KustomizationFinalizer
from controllers.kustomize.kustomization import KustomizationReconciler
from controllers.kustomize.memory import Memory
from controllers.kustomize.plan import Planner
from controllers.kustomize.rendering import Renderer
from controllers.kustomize.settings import Settings
from controllers.kustomize.sources import SourceReader, SourceView
from controllers.outside import Outside, connect
from controllers.planning import wiring as planning
from controllers.sourcepolicies import SourcePolicies
from crds import (
    BUCKET,
    EXTERNAL_ARTIFACT,
    GIT_REPOSITORY,
    HELM_RELEASE,
    KUSTOMIZATION,
    OCI_REPOSITORY,
)
from crds.kustomize import Kustomization
from toolkit.apply.options import MANAGER
from toolkit.artifact import scratch
from toolkit.artifact.fetch import Fetcher
from toolkit.decrypt import engine
from toolkit.decrypt.engine import EngineKeys
from toolkit.decrypt.kms.services import KeyServices
from toolkit.events import Recorder
from toolkit.kube import caches, impersonation, rbac
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change, Informer
from toolkit.kube.later import Later
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.remote import RemoteClients
from toolkit.kube.secrets import Secrets
from toolkit.native import calls, cores
from toolkit.objects import GroupVersionKind, ObjectKey
from toolkit.policy import references
from toolkit.policy.grants import Grants
from toolkit.policy.references import References

ACCOUNT: Final = "kustomize-controller"
_GROUP: Final = "kustomize.toolkit.fluxcd.io"
_SOURCES: Final = (GIT_REPOSITORY, OCI_REPOSITORY, BUCKET, EXTERNAL_ARTIFACT)

CLUSTER_PERMISSIONS: Final = (
    # The Kustomizations themselves; patch puts the finalizer and the status.
    Rule(groups=(_GROUP,), resources=("kustomizations",), verbs=("get", "list", "watch", "patch")),
    Rule(groups=(_GROUP,), resources=("kustomizations/status",), verbs=("get", "patch", "update")),
    *wiring.PERMISSIONS,
    # Say from which revision a write comes; whose write it is, is below.
    Rule(
        groups=("authentication.k8s.io",),
        resources=tuple(
            f"userextras/{impersonation.PREFIX}{claim}" for claim in impersonation.CLAIMS
        ),
        verbs=("impersonate",),
    ),
    Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
    *planning.PERMISSIONS,
)
TENANT_PERMISSIONS: Final = (
    # Act as the account that a Kustomization names.
    Rule(groups=("",), resources=("serviceaccounts",), verbs=("impersonate",)),
)
"""What it needs in each namespace that it works for; see ``deploy/components/by-namespace``."""
WORKLOAD_IDENTITY_PERMISSIONS: Final = (
    # Sign in as accounts at key services, and at clusters that trust our issuer
    # (spec.kubeConfig.configMapRef).
    Rule(groups=("",), resources=("serviceaccounts/token",), verbs=("create",)),
)
"""Granted by the component ``workload-identity`` alone: who has them can be any account."""
NAMESPACE_PERMISSIONS: Final = (
    *rbac.lease(ACCOUNT),
    # The store asks who wants to know what it keeps.
    *rbac.own_token(ACCOUNT),
)

_CONCURRENT: Final = 4
_KIND: Final = GroupVersionKind(*KUSTOMIZATION.gvk)


async def start(manager: Manager, options: Options) -> None:
    """Wire the controller into the manager."""
    sources = wiring.sources(manager, options, _SOURCES)
    granted = grants.follow(manager, options)
    policy = references.under(granted, options)
    policies = SourcePolicies.follow(manager)
    reader = SourceReader(sources, policy=policy, sources=policies)
    recorder = Recorder(manager.client, controller=ACCOUNT, address=options.events_addr)
    outside = await connect(manager, options)
    remotes = wiring.remotes(manager, options, outside)

    def enqueue(key: ObjectKey, trigger: str) -> None:
        controller.enqueue(key, trigger)

    def lookup(key: ObjectKey) -> Kustomization | None:
        return controller.informer.get(key)

    releases = dependencies.follow(manager, options, HELM_RELEASE)
    clusters = Clusters(manager.client, remotes, enqueue, group=_GROUP, manager=MANAGER)
    admission = Admission(manager.client)
    manager.add_informer(admission.informer)
    decryption = _decryption(manager, options, outside)
    refusals = grants.Refusals()
    reconciler, finalizer = await _passes(
        manager,
        options,
        reader,
        clusters,
        remotes,
        lookup,
        releases,
        policy,
        granted,
        policies,
        admission,
        decryption,
        refusals,
    )
    controller = Controller(
        kind=KUSTOMIZATION,
        client=manager.client,
        reconcile=reconciler.reconcile,
        finalize=finalizer.finalize,
        options=options.controller(concurrent=_CONCURRENT, namespace=manager.namespace),
        recorder=recorder,
        field_manager=f"gotk-{MANAGER}",  # as Flux, apart from what is applied
        retry_interval=lambda obj: obj.spec.retry_seconds,
    )
    triggers = _subscribe(manager, options, controller, reader, sources, releases, refusals)
    granted.subscribe(triggers.grant)
    policies.subscribe(triggers.policy)
    admission.wake(lambda: decrypting(controller.informer), controller.enqueue)
    controller.informer.subscribe(_forget_gone(reconciler))
    revisions = planning.retained(manager, options, outside.tokens, ACCOUNT)
    planner = Planner(stages=reconciler, revisions=revisions)
    planning.serve_plans(manager, options, KUSTOMIZATION, planner, lookup)
    manager.add_service(recorder.run)
    manager.until_end.push_async_callback(remotes.close)
    manager.add_elected(clusters.run, lease=ACCOUNT)
    manager.add_controller(controller, lease=ACCOUNT)


def _decryption(manager: Manager, options: Options, outside: Outside) -> Decryption:
    """Return what reads encrypted files, with keys of Secrets and of key services."""
    pool = engine.start()
    manager.until_end.push_async_callback(pool.close)
    return Decryption(
        secrets=Secrets(manager.client),
        services=KeyServices(outside.cloud, engine=EngineKeys(pool)),
        tokens=outside.tokens,
        default_account=options.default_decryption_service_account,
        own=options.shared_decryption_identity,
    )


async def _passes(  # noqa: PLR0913, PLR0917 - what the passes are made of
    manager: Manager,
    options: Options,
    reader: SourceReader,
    clusters: Clusters,
    remotes: RemoteClients,
    lookup: dependencies.Lookup,
    releases: Later[Dependent],
    policy: References,
    granted: Grants,
    policies: SourcePolicies,
    admission: Admission,
    decryption: Decryption,
    refusals: grants.Refusals,
) -> tuple[KustomizationReconciler, KustomizationFinalizer]:
    """Return what reconciles and what finalizes, with the workers and caches that they use."""
    copies = scratch.parent("kustomize")
    pool = calls.start(size=cores.available(), reads=(copies,))
    fetcher = Fetcher(
        copies,
        host_override=os.environ.get("SOURCE_CONTROLLER_LOCALHOST", ""),
        retries=options.http_retry,
    )
    manager.until_end.push_async_callback(pool.close)
    await manager.until_end.enter_async_context(fetcher)
    settings, memory = Settings.of(options), Memory()
    lookups = {_KIND: lookup, releases.gvk: releases.get}
    identities = Identities.of(KUSTOMIZATION.kind, manager, options, remotes)
    reconciler = KustomizationReconciler(
        settings=settings,
        sources=reader,
        gate=Gate(lookups=lookups, policy=policy, later=(releases,)),
        secrets=decryption.secrets,
        decryption=decryption,
        admission=admission,
        renderer=Renderer(pool=pool, fetcher=fetcher, strict=settings.strict_substitution),
        clusters=clusters,
        identities=identities,
        memory=memory,
        accounts=Accounts(labels=policies.labels, default=options.default_service_account),
        refusals=refusals,
        known=functools.partial(caches.complete, granted, policies),
    )
    finalizer = KustomizationFinalizer(
        settings=settings, clusters=clusters, identities=identities, memory=memory
    )
    return reconciler, finalizer


def _subscribe(  # noqa: PLR0913, PLR0917 - what wakes, and what is woken
    manager: Manager,
    options: Options,
    controller: Controller[Kustomization],
    reader: SourceReader,
    sources: Mapping[str, tuple[GroupVersionKind, Informer[SourceView]]],
    releases: Later[Dependent],
    refusals: grants.Refusals,
) -> Triggers[Kustomization]:
    """Have sources, dependencies and labelled ConfigMaps and Secrets wake their users."""
    triggers = Triggers(
        _KIND,
        controller.enqueue,
        refusals,
        uses=functools.partial(uses.used, reader=reader),
    )
    controller.informer.subscribe(triggers.applier)
    for gvk, informer in sources.values():
        informer.subscribe(triggers.source(gvk))
    wiring.configs(manager, options, triggers)
    triggers.dependencies(releases)
    return triggers


def _forget_gone(reconciler: KustomizationReconciler) -> Callable[[Change[Kustomization]], None]:
    """Drop what is known of an object that went without its finalizer."""

    def handle(change: Change[Kustomization]) -> None:
        if change.new is None:
            reconciler.clusters.forget(change.key)
            reconciler.memory.forget(change.key)
            reconciler.refusals.awaits(change.key, ())

    return handle
