"""Serve the plans of a kind, in every replica, at the address in ``--plan-addr``."""

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
    # To authenticate the caller, and to check its access.
    Rule(groups=("authentication.k8s.io",), resources=("tokenreviews",), verbs=("create",)),
    Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
)


def retained(
    manager: Manager, options: Options, tokens: ServiceAccountTokens, account: str
) -> Retained:
    """Return the client for stored revisions of sources; it uses a token of our ``account``."""
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
    """Serve plans in every replica, unless disabled; ``prefix`` is as for ``PlanServer``."""
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
