"""ArtifactGenerator: build artifacts from other artifacts, and offer them as ExternalArtifacts.

A reconciliation validates the spec and reads the sources from informers. If nothing has changed, it
ends there. Otherwise it fetches the sources, builds and stores the artifacts, writes the
ExternalArtifacts, and deletes those that are no longer generated.
"""

import functools
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from controllers import grants, waking
from controllers.index import Index
from controllers.source.generating import builder, inputs
from controllers.source.generating.builder import Builder
from controllers.source.generating.inputs import Informers, Input, InputReader
from controllers.source.generating.outputs import Outputs
from controllers.source.source import Scratch
from controllers.sourcepolicies import SourcePolicies
from crds import ARTIFACT_GENERATOR, EXTERNAL_ARTIFACT
from crds.extensions import SWITCH, ArtifactGenerator
from crds.source_external import ExternalArtifact
from toolkit.artifact import scratch as scratchdirs
from toolkit.artifact.composition.validation import require_valid
from toolkit.artifact.fetch import Fetcher
from toolkit.artifact.store import Store
from toolkit.errors import StalledError
from toolkit.kube import caches
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.reconciliation import EventSink, Outcome, Reconciliation
from toolkit.native import cores
from toolkit.objects import ObjectKey, ObjectRef
from toolkit.policy import references
from toolkit.policy.grants import Grants
from toolkit.policy.references import References

PERMISSIONS: Final = (
    # The generators themselves; patch sets the finalizer and the status.
    Rule(
        groups=(ARTIFACT_GENERATOR.group,),
        resources=(ARTIFACT_GENERATOR.plural,),
        verbs=("get", "list", "watch", "patch"),
    ),
    Rule(
        groups=(ARTIFACT_GENERATOR.group,),
        resources=(f"{ARTIFACT_GENERATOR.plural}/status",),
        verbs=("get", "patch", "update"),
    ),
    # The generated objects.
    Rule(
        groups=(EXTERNAL_ARTIFACT.group,),
        resources=(EXTERNAL_ARTIFACT.plural,),
        verbs=("get", "list", "watch", "create", "patch", "delete"),
    ),
    Rule(
        groups=(EXTERNAL_ARTIFACT.group,),
        resources=(f"{EXTERNAL_ARTIFACT.plural}/status",),
        verbs=("get", "patch"),
    ),
    *grants.PERMISSIONS,
)

_CONCURRENT: Final = 4
_SETTLE_SECONDS: Final = 1.0
"""Delay after a change of a generated object, so that the controller's own writes count once."""


class ArtifactGeneratorReconciler:
    """Reconciles ArtifactGenerators.

    ``known`` waits until grants and SourcePolicies have been listed once.
    """

    def __init__(  # noqa: PLR0913 - the parts of a reconciliation
        self,
        reader: InputReader,
        builder: Builder,
        outputs: Outputs,
        *,
        policy: References,
        scratch: Path,
        known: Callable[[], Awaitable[None]],
    ) -> None:
        self._reader = reader
        self._policy = policy
        self._builder = builder
        self._outputs = outputs
        self._scratch = scratch
        self._known = known

    async def reconcile(self, rec: Reconciliation[ArtifactGenerator]) -> Outcome:
        """Build the artifacts of the spec from the current artifacts of the sources."""
        obj = rec.obj
        if obj.metadata.annotations.get(SWITCH, "").lower() == "disabled":
            message = f"Reconciliation is disabled by the annotation {SWITCH}"
            rec.event("trace", "ReconciliationDisabled", message)
            return Outcome(message=message, untouched=True)
        require_valid(obj.spec)
        await self._known()
        grants.tell(rec, self._policy)
        found = self._reader.resolve(obj)
        state = inputs.digest(found.values())
        if "requested" not in rec.triggers and await self._is_current(obj, state):
            count = len(obj.status.inventory)
            rec.event(
                "trace", "ArtifactUpToDate", f"No drift detected, {_counted(count)} up to date"
            )
            return _done(obj, count, quiet=True)
        await rec.progress(f"building artifacts from {len(found)} source(s)")
        count, changed = await self._make(rec, found)
        rec.status({"observedSourcesDigest": state})
        outcome = _done(obj, count)
        if changed:
            rec.event("info", outcome.reason, outcome.message, {"digest": state})
        return outcome

    async def _make(
        self, rec: Reconciliation[ArtifactGenerator], found: Mapping[str, Input]
    ) -> tuple[int, bool]:
        """Return the number of artifacts, and whether any of them has changed.

        Even after an error, the inventory lists all artifacts that were made and not deleted.
        """
        obj = rec.obj
        made = {each.name: each for each in obj.status.inventory}
        try:
            async with Scratch(self._scratch) as scratch:
                into = await scratch.directory()
                built = await self._builder.build(
                    obj.spec, found, into, flow=obj.metadata.namespace
                )
                changed = await self._outputs.write(obj, built.artifacts, found, made)
            stale = made.keys() - {each.name for each in built.artifacts}
            await self._outputs.delete(obj, sorted(stale))
            for name in stale:
                del made[name]
        finally:
            rec.status({"inventory": [made[name] for name in sorted(made)]})
        return len(made), bool(changed or stale)

    async def finalize(self, rec: Reconciliation[ArtifactGenerator]) -> None:
        """Delete all generated objects with their artifacts."""
        made = {each.name for each in rec.obj.status.inventory} | self._outputs.owned(rec.obj)
        await self._outputs.delete(rec.obj, sorted(made))

    async def _is_current(self, obj: ArtifactGenerator, state: str) -> bool:
        status = obj.status
        return (
            status.observed_sources_digest == state
            and status.observed_generation == obj.metadata.generation
            and await self._outputs.intact(obj)
        )


async def start(  # noqa: PLR0913 - the parts that the component has
    manager: Manager,
    options: Options,
    *,
    store: Store,
    recorder: EventSink,
    informers: Informers,
    policies: SourcePolicies,
    scratch: Path,
    lease: str,
) -> Controller[ArtifactGenerator]:
    """Wire the controller into the manager.

    ``informers`` are those of the kinds of sources, by kind; ExternalArtifact must be one.
    """
    external = informers[EXTERNAL_ARTIFACT.kind]

    def generator(key: ObjectKey) -> ArtifactGenerator | None:
        return controller.informer.get(key)

    copies = scratchdirs.parent("generators")
    pool = builder.start(size=cores.available(), reads=(copies,), writes=(scratch,))
    fetcher = Fetcher(
        copies,
        host_override=os.environ.get("SOURCE_CONTROLLER_LOCALHOST", ""),
        retries=options.http_retry,
    )
    granted = grants.follow(manager, options)
    policy = references.under(granted, options)
    reader = InputReader(informers, generator, policy=policy, sources=policies)
    reconciler = ArtifactGeneratorReconciler(
        reader,
        Builder(pool, fetcher),
        Outputs(manager.client, store, external),
        policy=policy,
        scratch=scratch,
        known=functools.partial(caches.complete, granted, policies),
    )
    controller = Controller(
        kind=ARTIFACT_GENERATOR,
        client=manager.client,
        reconcile=reconciler.reconcile,
        finalize=reconciler.finalize,
        options=options.controller(concurrent=_CONCURRENT, namespace=manager.namespace),
        recorder=recorder,
        field_manager="gotk-source-watcher",
    )
    _wake(controller, reader, informers, granted)
    # Sources may be in other namespaces.
    policies.subscribe(waking.by_policy([controller], everywhere=True))
    manager.until_end.push_async_callback(pool.close)
    await manager.until_end.enter_async_context(fetcher)
    manager.add_controller(controller, lease=lease)
    return controller


def _wake(
    controller: Controller[ArtifactGenerator],
    reader: InputReader,
    informers: Informers,
    granted: Grants,
) -> None:
    """Reconcile generators when a source, a generated object or a needed grant changes."""
    index = Index()
    controller.informer.subscribe(_indexing(reader, index))
    for informer in informers.values():
        informer.subscribe(waking.by_source(informer.gvk, controller.enqueue, index))
    informers[EXTERNAL_ARTIFACT.kind].subscribe(_guarding(controller))
    granted.subscribe(
        lambda namespace, changed: grants.wake(namespace, changed, controller.enqueue, index)
    )


def _indexing(reader: InputReader, index: Index) -> Callable[[Change[ArtifactGenerator]], None]:
    """Return the handler that indexes the sources of generators, and the grants that they need."""

    def handle(change: Change[ArtifactGenerator]) -> None:
        try:
            used = [ref for _, ref in reader.references(change.new)] if change.new else []
        except StalledError:
            used = []  # The reconciliation reports the error.
        own = ObjectRef(inputs.KIND, change.key.namespace, change.key.name)
        index.put(change.key, [*used, *grants.needed(own, used)])

    return handle


def _guarding(controller: Controller[ArtifactGenerator]) -> Callable[[Change[Any]], None]:
    """Return the handler that enqueues a generator when its object is changed or deleted."""

    def handle(change: Change[ExternalArtifact]) -> None:
        obj = change.old or change.new
        maker = inputs.maker_of(obj) if obj and change.type != "ADDED" else None
        if maker is not None:
            controller.enqueue(maker, "drift", after=_SETTLE_SECONDS)

    return handle


def _done(obj: ArtifactGenerator, count: int, *, quiet: bool = False) -> Outcome:
    return Outcome(
        message=f"reconciliation succeeded, generated {_counted(count)}",
        requeue_after=obj.spec.interval_seconds,
        quiet=quiet,
    )


def _counted(count: int) -> str:
    return f"{count} artifact(s)"
