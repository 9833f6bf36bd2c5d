"""Wire the parts that all components of appliers need: a controller, clusters, and fetchers."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from controllers import outside
from controllers.applying.clusters import Clusters
from controllers.applying.identity import Identities
from crds.helm import HelmRelease
from crds.kind import Kind
from crds.kustomize import Kustomization
from toolkit.artifact.fetch import Fetcher
from toolkit.events import Recorder
from toolkit.expressions import evaluator
from toolkit.expressions.evaluator import Evaluates
from toolkit.kube.controller import Controller, Outcome, Reconciliation
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.remote import Entry, RemoteClients
from toolkit.objects import ObjectKey

T = TypeVar("T", Kustomization, HelmRelease)

_CONCURRENT: Final = 4


class Wiring(Generic[T]):
    """The parts of one kind of applier that all its reconciliations share.

    ``lookup`` and ``enqueue`` use the controller of the kind. They can be passed on before
    ``control`` creates the controller, but only called after it.
    """

    def __init__(  # noqa: PLR0913 - the parts
        self,
        manager: Manager,
        options: Options,
        kind: Kind[T],
        *,
        account: str,
        field_manager: str,
        ways: outside.Outside,
        evaluates: Evaluates,
    ) -> None:
        self.manager = manager
        self.options = options
        self.kind: Kind[T] = kind
        self.outside = ways
        self.remotes = RemoteClients(
            manager.client,
            cloud=ways.cloud,
            tokens=ways.tokens,
            allow_insecure_tls=options.insecure_kubeconfig_tls,
            entry=Entry(
                default_service_account=options.default_kubeconfig_service_account,
                shared_identity=options.shared_kubeconfig_identity,
            ),
        )
        self.identities = Identities.of(kind.kind, manager, options, self.remotes)
        self.clusters = Clusters(
            manager.client,
            self.remotes,
            self.enqueue,
            group=kind.group,
            manager=field_manager,
            evaluates=evaluates,
        )
        self.evaluates = evaluates
        self.account = account
        self._field_manager = field_manager
        self._controller: Controller[T] | None = None

    @classmethod
    async def connect(
        cls,
        manager: Manager,
        options: Options,
        kind: Kind[T],
        *,
        account: str,
        field_manager: str,
    ) -> "Wiring[T]":
        """Return the wiring; the process closes its parts at its end.

        ``account`` is the ServiceAccount of the component. ``field_manager`` owns the fields of the
        applied objects.
        """
        ways = await outside.connect(manager, options)
        evaluates = evaluator.start()
        manager.until_end.push_async_callback(evaluates.close)
        return cls(
            manager,
            options,
            kind,
            account=account,
            field_manager=field_manager,
            ways=ways,
            evaluates=evaluates,
        )

    async def fetcher(self, directory: Path) -> Fetcher:
        """Return the fetcher, which extracts artifacts below ``directory``."""
        return await self.manager.until_end.enter_async_context(
            Fetcher(
                directory,
                host_override=os.environ.get("SOURCE_CONTROLLER_LOCALHOST", ""),
                retries=self.options.http_retry,
            )
        )

    @property
    def controller(self) -> Controller[T]:
        """Return the controller; call ``control`` first."""
        if self._controller is None:
            raise AssertionError("the controller is used before it is made")
        return self._controller

    def lookup(self, key: ObjectKey) -> T | None:
        """Return an object of the kind from the informer, or None."""
        return self.controller.informer.get(key)

    def enqueue(self, key: ObjectKey, trigger: str) -> None:
        """Queue an object for reconciliation."""
        self.controller.enqueue(key, trigger)

    def control(
        self,
        *,
        reconcile: Callable[[Reconciliation[T]], Awaitable[Outcome]],
        finalize: Callable[[Reconciliation[T]], Awaitable[None]],
        retry_interval: Callable[[T], float | None] = lambda _: None,
    ) -> None:
        """Create the controller, and have the manager run it with the parts that it uses."""
        manager = self.manager
        recorder = Recorder(
            manager.client, controller=self.account, address=self.options.events_addr
        )
        self._controller = Controller(
            kind=self.kind,
            client=manager.client,
            reconcile=reconcile,
            finalize=finalize,
            options=self.options.controller(concurrent=_CONCURRENT, namespace=manager.namespace),
            recorder=recorder,
            field_manager=f"gotk-{self._field_manager}",  # as in Flux, for its status
            retry_interval=retry_interval,
        )
        manager.add_service(recorder.run)
        manager.until_end.push_async_callback(self.remotes.close)
        manager.add_elected(self.clusters.run, lease=self.account)
        manager.add_controller(self._controller, lease=self.account)
