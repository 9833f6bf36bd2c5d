"""Namespaces and definitions that Helm must not delete, whatever a chart or its hooks say.

Every deletion of an action passes through this process: when a release is uninstalled, when an
upgrade drops an object, and before or after a hook. The answer for what is kept is that it does not
exist. Helm takes this for done, and goes on.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote

import msgspec

from toolkit.apply.retention import DEFINITION, Retention
from toolkit.helm.gates import Exchanging, Response
from toolkit.objects import GroupVersionKind, ObjectRef

_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_NAMESPACES: Final = ["api", "v1", "namespaces"]
_DEFINITIONS: Final = ["apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions"]


class Keeping:
    """An identity that cannot delete what it ``keeps``; ``kept`` gets each object that it tried to.

    It cannot delete all Namespaces or all definitions at once either, if there is one to keep.
    ``in_use`` tells whether objects of the kind of a definition exist.
    """

    def __init__(
        self,
        client: Exchanging,
        keeps: Retention,
        kept: Callable[[ObjectRef], object],
        *,
        in_use: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._client = client
        self._keeps = keeps
        self._kept = kept
        self._in_use = in_use

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        """Send a request, unless it would delete what is kept."""
        refused = await self._refused(target) if method == "DELETE" else ()
        if refused:
            for ref in refused:
                self._kept(ref)
            yield 404, {"Content-Type": "application/json"}, _once(_missing(refused))
            return
        async with self._client.exchange(method, target, headers=headers, body=body) as response:
            yield response

    async def _refused(self, target: str) -> tuple[ObjectRef, ...]:
        """Return the objects because of which a deletion is refused."""
        parts = [part for part in unquote(target.partition("?")[0]).split("/") if part]
        if parts == _NAMESPACES:
            return tuple(ObjectRef(_NAMESPACE, "", each) for each in sorted(self._keeps.namespaces))
        if parts == _DEFINITIONS:
            groups = sorted(self._keeps.groups)
            return tuple(ObjectRef(DEFINITION, "", f"*.{group}") for group in groups)
        if parts[:-1] == _NAMESPACES:
            named = ObjectRef(_NAMESPACE, "", parts[-1])
            return (named,) if self._keeps.keeps(named) else ()
        if parts[:-1] == _DEFINITIONS:
            named = ObjectRef(DEFINITION, "", parts[-1])
            guarded = self._keeps.guards(named) and await self._in_use(named.name)
            return (named,) if guarded else ()
        return ()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _missing(refs: tuple[ObjectRef, ...]) -> bytes:
    plural = (_NAMESPACES if refs[0].gvk == _NAMESPACE else _DEFINITIONS)[-1]
    names = ", ".join(ref.name for ref in refs)
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'{plural} "{names}" not found: it is kept, and not deleted',
            "reason": "NotFound",
            "details": {"name": refs[0].name, "kind": plural},
            "code": 404,
        }
    )
