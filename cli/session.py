"""How a command reaches the cluster: the options that all of them share, and one event loop.

The namespace is the first of: ``--namespace``, ``PENSTOCK_NAMESPACE``, ``FLUX_SYSTEM_NAMESPACE``,
the kubeconfig context's own (``default`` counts as not set), ``flux-system``.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli import age, errors

if TYPE_CHECKING:
    from toolkit.kube import client

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

FALLBACK_NAMESPACE: Final = "flux-system"
NAMESPACE_VARIABLES: Final = ("PENSTOCK_NAMESPACE", "FLUX_SYSTEM_NAMESPACE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What the user said about cluster, namespace and patience; ``timeout`` in seconds."""

    kubeconfig: str
    context: str
    namespace: str
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open client, the namespace to work in, and the seconds that waiting may take."""

    api: "client.Client"
    namespace: str
    timeout: float


def options(function: Function) -> Function:
    """Add ``--kubeconfig``, ``--context``, ``--namespace`` and ``--timeout`` to a command."""
    for option in reversed(
        (
            click.option("-n", "--namespace", default="", help="Namespace of the objects."),
            click.option("--context", default="", help="Context of the kubeconfig to use."),
            click.option(
                "--kubeconfig",
                default="",
                metavar="FILE",
                help="Kubeconfig to use instead of KUBECONFIG or ~/.kube/config.",
            ),
            click.option(
                "--timeout",
                type=age.DURATION,
                default="5m",
                show_default=True,
                help="How long waiting may take.",
            ),
        )
    ):
        function = option(function)
    return function


def run(connection: Connection, work: Callable[[Session], Awaitable[T]]) -> T:
    """Open a client, run ``work`` in an event loop, close the client."""
    # The HTTP client takes a third of the time that a command may take; help needs none.
    from toolkit.kube import client, config  # noqa: PLC0415

    async def inside() -> T:
        cluster = config.from_environment(connection.kubeconfig, context=connection.context)
        async with client.Client.open(cluster) as api:
            chosen = namespace(connection.namespace, cluster.namespace)
            return await work(Session(api=api, namespace=chosen, timeout=connection.timeout))

    with errors.ungrouped():
        return asyncio.run(inside())


def run_offline(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work``, which needs no cluster, in an event loop."""
    with errors.ungrouped():
        return asyncio.run(work)


def namespace(wanted: str, of_context: str) -> str:
    """Return the namespace to work in, see the module's docstring."""
    from_variables = (os.environ.get(name, "") for name in NAMESPACE_VARIABLES)
    from_context = "" if of_context == "default" else of_context
    return next(filter(None, (wanted, *from_variables, from_context)), FALLBACK_NAMESPACE)


def placed(connection: Connection, namespace: str) -> Connection:
    """Return the same connection, to work in a namespace whatever else is said of one."""
    return replace(connection, namespace=namespace)


def connection(arguments: dict[str, Any]) -> Connection:
    """Take the shared options out of a command's arguments."""
    names = ("kubeconfig", "context", "namespace", "timeout")
    return Connection(**{name: arguments.pop(name) for name in names})
