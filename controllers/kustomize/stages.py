"""Build the reconciler and the finalizer of Kustomizations, with their workers and caches."""

import functools
from collections.abc import Callable
from typing import Final

from controllers import grants
from controllers.applying.watched import Watched
from controllers.applying.wiring import Wiring
from controllers.kustomize import uses
from controllers.kustomize.decryption import Decryption
from controllers.kustomize.deleting import KustomizationFinalizer
from controllers.kustomize.kustomization import KustomizationReconciler
from controllers.kustomize.memory import Memory
from controllers.kustomize.rendering import Renderer
from controllers.kustomize.settings import Settings
from controllers.kustomize.sources import SourceReader
from crds import BUCKET, EXTERNAL_ARTIFACT, GIT_REPOSITORY, OCI_REPOSITORY
from crds.kustomize import Kustomization
from toolkit.artifact import scratch
from toolkit.decrypt import engine
from toolkit.decrypt.engine import EngineKeys
from toolkit.decrypt.kms.services import KeyServices
from toolkit.kube.informer import Change
from toolkit.kube.secrets import Secrets
from toolkit.native import calls, cores

SOURCES: Final = (GIT_REPOSITORY, OCI_REPOSITORY, BUCKET, EXTERNAL_ARTIFACT)


async def build(
    wiring: Wiring[Kustomization], watched: Watched
) -> tuple[KustomizationReconciler, KustomizationFinalizer]:
    """Return the reconciler and the finalizer."""
    options = wiring.options
    settings, memory = Settings.of(options, installed=wiring.manager.namespace), Memory()
    decryption = _decryption(wiring)
    reconciler = KustomizationReconciler(
        settings=settings,
        sources=SourceReader(watched.sources, policy=watched.references, sources=watched.policies),
        gate=watched.gate(wiring),
        secrets=decryption.secrets,
        decryption=decryption,
        admission=watched.admission,
        renderer=await _renderer(wiring, strict=settings.strict_substitution),
        clusters=wiring.clusters,
        identities=wiring.identities,
        memory=memory,
        accounts=watched.accounts(options),
        refusals=grants.Refusals(),
        known=watched.known,
    )
    finalizer = KustomizationFinalizer(
        settings=settings, clusters=wiring.clusters, identities=wiring.identities, memory=memory
    )
    return reconciler, finalizer


def wake(
    wiring: Wiring[Kustomization], watched: Watched, reconciler: KustomizationReconciler
) -> None:
    """Subscribe to all informers, so that their events enqueue the Kustomizations concerned."""
    watched.wake(
        wiring,
        reconciler.refusals,
        uses=functools.partial(uses.used, reader=reconciler.sources),
    )
    wiring.controller.informer.subscribe(_forget_gone(reconciler))


def _decryption(wiring: Wiring[Kustomization]) -> Decryption:
    """Return the decryption of files, with keys from Secrets and from key services."""
    pool = engine.start()
    wiring.manager.until_end.push_async_callback(pool.close)
    return Decryption(
        secrets=Secrets(wiring.manager.client),
        services=KeyServices(wiring.outside.cloud, engine=EngineKeys(pool)),
        tokens=wiring.outside.tokens,
        default_account=wiring.options.default_decryption_service_account,
        own=wiring.options.shared_decryption_identity,
    )


async def _renderer(wiring: Wiring[Kustomization], *, strict: bool) -> Renderer:
    copies = scratch.parent("kustomize")
    pool = calls.start(size=cores.available(), reads=(copies,))
    wiring.manager.until_end.push_async_callback(pool.close)
    return Renderer(pool=pool, fetcher=await wiring.fetcher(copies), strict=strict)


def _forget_gone(reconciler: KustomizationReconciler) -> Callable[[Change[Kustomization]], None]:
    """Return the handler that drops the caches of an object deleted without its finalizer."""

    def handle(change: Change[Kustomization]) -> None:
        if change.new is None:
            reconciler.clusters.forget(change.key)
            reconciler.memory.forget(change.key)
            reconciler.refusals.awaits(change.key, ())

    return handle
