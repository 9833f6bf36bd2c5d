"""The session of a command with the cluster: shared options, and one event loop.

The namespace is the first of: ``--namespace``, ``PENSTOCK_NAMESPACE``, ``FLUX_SYSTEM_NAMESPACE``,
the kubeconfig context's own (``default`` counts as not set), ``flux-system``.
"""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli import deadline, errors, goflags, loading, servers
from cli.connection import Connection
from toolkit.kube import errors as kube_errors

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from toolkit.kube import client

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

FALLBACK_NAMESPACE: Final = "flux-system"
NAMESPACE_VARIABLES: Final = ("PENSTOCK_NAMESPACE", "FLUX_SYSTEM_NAMESPACE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open client, the namespace to work in, and the seconds that waiting may take.

    ``deadline`` is the end of the whole command, by the clock of the event loop, if it has one.
    """

    api: "client.Client"
    namespace: str
    timeout: float
    deadline: float = math.inf

    @property
    def left(self) -> float:
        """The seconds that a wait which begins now may take."""
        return max(0.0, min(self.timeout, self.deadline - asyncio.get_running_loop().time()))


def options(function: Function) -> Function:
    """Add the options of every command that contacts a cluster: its address, and the identity."""
    for option in reversed(
        (
            click.option(
                "-n",
                "--namespace",
                default="",
                help="Namespace of the objects.",
                shell_complete=_complete_namespace,
            ),
            click.option("--context", default="", help="Context of the kubeconfig to use."),
            click.option(
                "--kubeconfig",
                default="",
                metavar="FILE",
                help="Kubeconfig to use instead of KUBECONFIG or ~/.kube/config.",
            ),
            servers.timeout(
                "How long the command may take; of one with several steps or that follows "
                "changes, each wait and each request."
            ),
            click.option("--as", "user", default="", metavar="USER", help="Act as this user."),
            click.option(
                "--as-group",
                "groups",
                multiple=True,
                metavar="GROUP",
                help="Act as a member of this group; needs --as.",
            ),
        )
    ):
        function = option(function)
    return function


def _complete_namespace(
    context: click.Context, option: click.Parameter, begun: str
) -> "list[CompletionItem]":
    # Completion runs a session itself, so it is found when it is needed.
    found: list[CompletionItem] = loading.Later("cli.completing").namespace(context, option, begun)
    return found


def run(
    connection: Connection,
    work: Callable[[Session], Awaitable[T]],
    *,
    pace: deadline.Pace = "whole",
) -> T:
    """Open a client, run ``work`` in an event loop, close the client.

    Raises:
        DeadlineError: it takes longer than the timeout; ``pace`` tells what the timeout is for.
    """
    # The HTTP client takes a third of the time that a command may take; help needs none.
    with loading.uncollected():
        from cli import connecting  # noqa: PLC0415
        from toolkit.kube import client  # noqa: PLC0415

    async def inside() -> T:
        cluster = connecting.cluster(connection)
        seconds = connection.timeout
        async with client.Client.open(
            cluster, timeout=deadline.attempt(seconds), patience=seconds
        ) as api:
            opened = Session(
                api=connecting.acting(api, connection) if connection.user else api,
                namespace=namespace(connection.namespace, cluster.namespace),
                timeout=seconds,
            )
            if pace != "whole":
                return await work(opened)
            end = asyncio.get_running_loop().time() + seconds
            return await deadline.whole(
                work(replace(opened, deadline=end)),
                seconds,
                silent=f"the API server {api.server} did not answer all requests",
            )

    with errors.ungrouped():
        return asyncio.run(inside())


def run_offline(
    work: Coroutine[Any, Any, T], *, seconds: float | None = None, silent: str = "it did not end"
) -> T:
    """Run ``work``, which needs no cluster, in an event loop.

    Raises:
        DeadlineError: it takes longer; ``silent`` says what does.
    """
    with errors.ungrouped():
        if seconds is None:
            return asyncio.run(work)
        return asyncio.run(deadline.whole(work, seconds, silent=silent))


def namespace(wanted: str, of_context: str) -> str:
    """Return the namespace to work in, see the module's docstring."""
    from_variables = (os.environ.get(name, "") for name in NAMESPACE_VARIABLES)
    from_context = "" if of_context == "default" else of_context
    return next(filter(None, (wanted, *from_variables, from_context)), FALLBACK_NAMESPACE)


def offline_namespace(connection: Connection) -> str:
    """Return the namespace for a command that needs neither a cluster nor a kubeconfig."""
    from cli import connecting  # noqa: PLC0415 - as in `run`

    try:
        cluster = connecting.cluster(connection)
    except kube_errors.KubeConfigError:
        return namespace(connection.namespace, "")
    return namespace(connection.namespace, cluster.namespace)


def placed(connection: Connection, namespace: str) -> Connection:
    """Return the same connection for another namespace."""
    return replace(connection, namespace=namespace)


def connection(arguments: dict[str, Any]) -> Connection:
    """Take the shared options out of a command's arguments."""
    names = ("kubeconfig", "context", "namespace", "timeout", "user", "groups")
    flags = goflags.current()
    found = Connection(**{name: arguments.pop(name) for name in names}, flags=flags)
    alone = ["--as-group"] if found.groups else []
    alone += [name for name in ("--as-uid", "--as-user-extra") if name in flags]
    if alone and not found.user:
        raise errors.UsageError(f"{alone[0]} needs --as: the API server takes it with a user only")
    return found
