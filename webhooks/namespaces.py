"""Labels of namespaces, by which policies select namespaces.

They come from a cache that all plugins share. A namespace that is not in the cache may be new, and
is read from the API server: it must not count as one without labels, because then no policy would
select it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, ObjectKey
from webhooks.plugin import DeniedError
from webhooks.services import Services

NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")

Labels = Mapping[str, str]


class Namespaces:
    """Looks up labels; to be made in ``Row.make``."""

    def __init__(self, services: Services) -> None:
        self._client = services.client
        self._cache = services.watch(NAMESPACE, decode=decode, metadata_only=True)

    async def labels(self, name: str) -> Labels:
        """Return the labels of a namespace.

        Raises:
            DeniedError: there is no such namespace.
            ApiError: it cannot be read.
        """
        known = self._cache.get(ObjectKey("", name))
        if known is not None:
            return known
        try:
            found = await self._client.get(NAMESPACE, name)
        except NotFoundError as exc:
            raise DeniedError(f"namespace '{name}' not found", code=404, reason="NotFound") from exc
        return decode(msgspec.json.encode(found))


def decode(data: bytes) -> Labels:
    """Return the labels of one namespace's JSON."""
    return _DECODER.decode(data).metadata.labels or {}


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Metadata


_DECODER: Final = msgspec.json.Decoder(_Namespace)
