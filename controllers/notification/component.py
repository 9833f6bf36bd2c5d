"""The notification component: receives events and hooks, and sends the events that Alerts select.

Every replica has both endpoints and a spool, and sends the events that it received. The leader
writes the conditions. Hooks have their own port, so that only this one is exposed.
"""

import dataclasses
import functools
from pathlib import Path
from typing import Any, Final, TypeVar

from controllers import grants
from controllers.notification import bodies, followed
from controllers.notification.events import endpoint
from controllers.notification.events.duplicates import Duplicates
from controllers.notification.events.handover import LABEL, Handover
from controllers.notification.events.intake import Alerts, Intake
from controllers.notification.events.spool import Spool
from controllers.notification.receiving.hooks import Hooks, Paths
from controllers.notification.receiving.oidc import Tokens
from controllers.notification.receiving.receiver import ReceiverReconciler
from controllers.notification.receiving.requests import Requests
from controllers.notification.receiving.resources import Resources
from controllers.notification.sending.keyfiles import KeyFiles
from controllers.notification.sending.provider import ProviderReconciler
from controllers.notification.sending.sender import Sender
from controllers.notification.sending.signing import SignIns
from controllers.notification.sending.targets import Reachable, Targets
from controllers.outside import connect
from crds import ALERT, PROVIDER, RECEIVER
from crds.kind import Kind
from crds.notification import Alert, Provider
from crds.notification_receiver import Receiver
from toolkit.events import Recorder
from toolkit.expressions import evaluator
from toolkit.kube import rbac
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Informer
from toolkit.kube.manager import Manager, serve
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.reconciliation import Outcome, Reconciliation
from toolkit.kube.secrets import CONFIG_MAP, Secrets
from toolkit.net.connections import Limits
from toolkit.objects import ObjectKey
from toolkit.policy import references
from toolkit.remote.git.github import GitHubTokens

ACCOUNT: Final = "notification-controller"
_OWN: Final = tuple(kind.plural for kind in (PROVIDER, ALERT, RECEIVER))

CLUSTER_PERMISSIONS: Final = (
    # Its own kinds; patch removes finalizers and puts them.
    Rule(groups=(PROVIDER.group,), resources=_OWN, verbs=("get", "list", "watch", "patch")),
    Rule(
        groups=(PROVIDER.group,),
        resources=tuple(f"{plural}/status" for plural in _OWN),
        verbs=("get", "patch", "update"),
    ),
    *followed.PERMISSIONS,
    *grants.PERMISSIONS,
    Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
)
TENANT_PERMISSIONS: Final = (
    # Tokens of services and of senders, and accounts that sign in, are read when named, never
    # listed.
    Rule(groups=("",), resources=("secrets", "serviceaccounts"), verbs=("get",)),
)
"""Rights in each namespace whose objects it reconciles; see ``deploy/components/by-namespace``."""
WORKLOAD_IDENTITY_PERMISSIONS: Final = (
    # With --feature-gates=ObjectLevelWorkloadIdentity=true Providers act as accounts at clouds.
    Rule(groups=("",), resources=("serviceaccounts/token",), verbs=("create",)),
)
"""Only the component ``workload-identity`` grants these: with them, a process can be any account.
"""
NAMESPACE_PERMISSIONS: Final = (
    *rbac.lease(ACCOUNT),
    # Undelivered events of a replica that stops, for the leader; see events.handover.
    Rule(
        groups=("",), resources=("configmaps",), verbs=("create", "get", "list", "watch", "delete")
    ),
)
_CONCURRENT: Final = 2
_CONNECTIONS: Final = 256
_SPOOL: Final = "notifications"
_FINISH_SECONDS: Final = 20.0
"""Seconds of the grace period (60, see the Deployment) in which events are still sent."""

T = TypeVar("T", Provider, Alert, Receiver)


async def start(manager: Manager, options: Options) -> None:
    """Wire both endpoints, the spool, the sender and the reconcilers into the manager."""
    outside = await connect(manager, options)
    policy = references.under(grants.follow(manager, options), options)
    directory = Path(options.storage_path or "/data") / _SPOOL
    spool = Spool(directory, limit=options.event_storage_limit)
    await spool.open()
    manager.until_end.push_async_callback(spool.close)
    secrets = Secrets(manager.client)
    evaluates = evaluator.start()
    manager.until_end.push_async_callback(evaluates.close)
    private = {manager.namespace, *options.provider_internal_namespaces}
    reachable = Reachable(plain_http=options.insecure_allow_http, private=frozenset(private))
    recorder = Recorder(manager.client, controller=ACCOUNT)
    wire = functools.partial(_controller, manager, options, recorder)

    sign_ins = SignIns(
        cloud=outside.cloud,
        github=GitHubTokens(outside.http),
        accounts=outside.tokens,
        keys=KeyFiles(outside.http, outside.cache),
    )
    targets = Targets(secrets, reachable, sign_ins)
    sender = Sender(spool, place=targets.place, http=outside.http, evaluates=evaluates)
    reconciler = ProviderReconciler(targets.place, sender.health)
    providers = wire(PROVIDER, reconcile=reconciler.reconcile, finalize=reconciler.finalize)
    sender.follow(providers.informer, changed=lambda key: providers.enqueue(key, "delivery"))
    alerts = wire(ALERT, reconcile=_never, finalize=_nothing, static=True)
    intake = Intake(
        client=manager.client,
        alerts=Alerts(alerts.informer),
        policy=policy,
        spool=spool,
        duplicates=Duplicates(options.rate_limit_interval),
    )
    _hand_over(manager, options, spool, sender, intake)
    receiving = ReceiverReconciler(secrets, evaluates)
    receivers = wire(RECEIVER, reconcile=receiving.reconcile, finalize=receiving.finalize)
    hooks = Hooks(
        find=Paths(receivers.informer).find,
        secrets=secrets,
        tokens=Tokens(outside.http, reachable.endpoint, evaluates),
        resources=Resources(manager.client, policy, evaluates),
        requests=Requests(manager.client),
    )
    manager.add_service(recorder.run)
    for each in (providers, alerts, receivers):
        manager.add_controller(each, lease=ACCOUNT)
    manager.add_service(sender.run)
    # The answer to a body that takes too long comes before its connection is closed.
    limits = dataclasses.replace(Limits.fitting(_CONNECTIONS), request_seconds=2 * bodies.SECONDS)
    events = endpoint.application(intake, sender.wake)
    manager.add_service(
        functools.partial(_serve, alerts, events, options.event_endpoint_addr, limits)
    )
    manager.add_service(
        functools.partial(_serve, receivers, hooks.application(), options.receiver_addr, limits)
    )


def _hand_over(
    manager: Manager, options: Options, spool: Spool, sender: Sender, intake: Intake
) -> None:
    """Hand over undelivered events when the process stops, and adopt those of other replicas."""
    lease = options.lease(ACCOUNT)
    own = ObjectKey(manager.namespace, lease)
    handover = Handover(manager.client, spool, wake=sender.wake, lease=own)
    left: Informer[bool] = Informer(
        manager.client,
        CONFIG_MAP,
        decode=lambda _: True,
        namespace=manager.namespace,
        label_selector=f"{LABEL}={lease}",
        metadata_only=True,
    )
    left.subscribe(handover.saw)

    async def farewell() -> None:
        await sender.finish(_FINISH_SECONDS)
        intake.close()
        await handover.leave()

    manager.add_informer(left)
    manager.add_elected(handover.adopt, lease=ACCOUNT)
    manager.add_farewell(farewell)


def _controller(  # noqa: PLR0913 - the parts of a controller
    manager: Manager,
    options: Options,
    recorder: Recorder,
    kind: Kind[T],
    *,
    reconcile: Any,
    finalize: Any,
    static: bool = False,
) -> Controller[T]:
    return Controller(
        kind=kind,
        client=manager.client,
        reconcile=reconcile,
        finalize=finalize,
        options=options.controller(concurrent=_CONCURRENT, namespace=manager.namespace),
        recorder=recorder,
        field_manager=f"gotk-{ACCOUNT}",
        static=lambda _: static,
    )


async def _never(_rec: Reconciliation[Alert]) -> Outcome:
    """Reconcile nothing: an Alert is read when an event arrives."""
    raise AssertionError("Alerts are static")


async def _nothing(_rec: Reconciliation[Alert]) -> None:
    """Undo nothing."""


async def _serve(controller: Controller[Any], app: Any, address: str, limits: Limits) -> None:
    # Without the Alerts, an event would be dropped as one that no Alert selects.
    await controller.informer.wait_synced()
    await serve(app, address, limits)
