"""Serve the plans of a kind, in every replica, where the flag says."""

import functools
from collections.abc import Callable
from typing import Any, Final

from controllers.planning.revisions import Retained
from controllers.planning.server import AUDIENCE, Planner, PlanServer, T
from crds.kind import Kind
from toolkit.artifact import index
from toolkit.artifact.access import Access
from toolkit.kube.manager import Manager, serve
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.objects import ObjectKey

PERMISSIONS: Final = (
    # Who asks for a plan is asked for, and whether they may.
    Rule(groups=("authentication.k8s.io",), resources=("tokenreviews",), verbs=("create",)),
    Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
)


def retained(
    manager: Manager, options: Options, tokens: ServiceAccountTokens, account: str
) -> Retained:
    """Return what knows the stored revisions of sources, asking as an account of ours."""
    token = tokens.lasting(manager.namespace, account, index.AUDIENCE)
    address = options.storage_adv_addr or f"source-controller.{manager.namespace}.svc"
    return Retained(address=address, token=token)


def serve_plans(  # noqa: PLR0913 - what is asked, of whom
    manager: Manager,
    options: Options,
    kind: Kind[Any],
    planner: Planner[T],
    lookup: Callable[[ObjectKey], T | None],
    *,
    prefix: str = "",
) -> None:
    """Answer, in every replica, what a reconcile would change; ``prefix`` is as for the server."""
    if options.plan_addr in {"", "0"}:
        return
    server = PlanServer(
        planner,
        kind=kind,
        access=Access(manager.client, audience=AUDIENCE),
        lookup=lookup,
        prefix=prefix,
    )
    manager.add_service(functools.partial(serve, server.application(), options.plan_addr))
