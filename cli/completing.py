"""Completion of names of objects by a shell: a quick list of the cluster, or nothing.

Nothing is printed and nothing fails: a shell would show it in the middle of the line. Of the flags
that stand before the word, those about the cluster count.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from cli import goflags, session
from cli.connection import Connection
from toolkit.errors import PenstockError
from toolkit.objects import GroupVersionKind, key_of

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

SECONDS: Final = 2.0
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_MOST: Final = 500
_GROUP, _VERSION = "gitops.penstock.dev", "v1alpha1"
_SERVED: Final = {"inventories": "Inventory", "artifacts": "Artifact"}


def names(*kinds: GroupVersionKind) -> Complete:
    """Return the completion of a name of these kinds, in the namespace of the command."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        return _items(begun, _found(context, kinds))

    return complete


def of(kind: Any) -> Complete:
    """Return the completion of a name of a row of ``crds.KINDS``."""
    return names(GroupVersionKind(*kind.gvk))


def served(plural: str) -> Complete:
    """Return the completion of a name of the aggregated API."""
    return names(GroupVersionKind(_GROUP, _VERSION, _SERVED[plural]))


def namespace(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a namespace."""
    return _items(begun, _found(context, (_NAMESPACE,), everywhere=True))


def _items(begun: str, found: Sequence[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in found if name.startswith(begun)]


def _found(
    context: click.Context, kinds: Sequence[GroupVersionKind], *, everywhere: bool = False
) -> list[str]:
    async def work(opened: session.Session) -> list[str]:
        place = "" if everywhere else opened.namespace
        lists = await asyncio.gather(*(opened.api.list(kind, place, limit=_MOST) for kind in kinds))
        return sorted({key_of(obj).name for objects in lists for obj in objects})

    try:
        return session.run(_connection(context), work)
    except (PenstockError, ExceptionGroup):
        return []


def _connection(context: click.Context) -> Connection:
    given = context.params
    return Connection(
        kubeconfig=given.get("kubeconfig") or "",
        context=given.get("context") or "",
        namespace=given.get("namespace") or "",
        timeout=SECONDS,
        user=given.get("user") or "",
        groups=given.get("groups") or (),
        flags=goflags.current(context),
    )
