"""Read Secrets and ConfigMaps that objects refer to, as bytes, with errors that name the reference.

Nothing is cached: a rotated credential counts from the next reconcile on.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json

SECRET: Final = GroupVersionKind("", "v1", "Secret")
CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The content of a Secret or ConfigMap, and its version (for change detection)."""

    values: Mapping[str, bytes] = field(repr=False)
    version: str


class Secrets:
    """Reads referenced Secrets and ConfigMaps with one identity."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self, namespace: str, name: str, *, reason: str) -> Mapping[str, bytes]:
        """Return a Secret's decoded data.

        Raises:
            TransientError: it does not exist or cannot be read; ``reason`` becomes the condition's.
        """
        return (await self.data(SECRET, namespace, name, reason=reason)).values

    async def data(self, gvk: GroupVersionKind, namespace: str, name: str, *, reason: str) -> Data:
        """Return the data of a Secret or ConfigMap (``binaryData`` included) and its version."""
        try:
            obj = await self._client.get(gvk, name, namespace)
        except NotFoundError as error:
            missing = TransientError(
                f"{gvk.kind} '{namespace}/{name}' not found: create it, or correct its name",
                reason=reason,
            )
            if gvk == SECRET:
                missing = missing.within(f"failed to get secret '{namespace}/{name}'")
            raise missing from error
        version = f"{gvk.kind}/{namespace}/{name}@{obj['metadata'].get('resourceVersion', '')}"
        return Data(values=_decoded(gvk, obj), version=version)


def _decoded(gvk: GroupVersionKind, obj: Json) -> dict[str, bytes]:
    if gvk == SECRET:
        return {key: _base64(value) for key, value in (obj.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    binary = {key: _base64(value) for key, value in (obj.get("binaryData") or {}).items()}
    return plain | binary


def _base64(value: str) -> bytes:
    try:
        return base64.b64decode(value or "", validate=True)
    except ValueError as error:
        raise TransientError("a data value is not base64") from error
