"""The images that an object would run, with their paths, and the same object with other images.

This covers Pods and all kinds with a template of Pods, and every image that the kubelet or the
runtime pulls: of containers, init containers, ephemeral containers, and image volumes (KEP-4639).
Kinds are matched without their version, so that an old version is no bypass.

Pure; an object with an invalid structure is left to the validation by the API server.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from toolkit.objects import Json, dig, gvk_of

Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions from the object's root."""

POD_SPECS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = MappingProxyType(
    {
        # Group and kind, and where its spec of Pods is.
        ("", "Pod"): ("spec",),
        ("", "PodTemplate"): ("template", "spec"),
        ("", "ReplicationController"): ("spec", "template", "spec"),
        ("apps", "Deployment"): ("spec", "template", "spec"),
        ("apps", "ReplicaSet"): ("spec", "template", "spec"),
        ("apps", "StatefulSet"): ("spec", "template", "spec"),
        ("apps", "DaemonSet"): ("spec", "template", "spec"),
        ("batch", "Job"): ("spec", "template", "spec"),
        ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
    }
)

# Lists in a Pod spec, the path from an entry to its image, and the name of an entry in messages.
_LISTS: Final = (
    ("containers", ("image",), "container"),
    ("initContainers", ("image",), "init container"),
    ("ephemeralContainers", ("image",), "ephemeral container"),
    ("volumes", ("image", "reference"), "volume"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of an object: ``text`` as it is written, ``owner`` as ``init container 'setup'``.

    An entry without a name is called by its position.
    """

    path: Path
    owner: str
    text: str

    @property
    def field(self) -> str:
        """Return the path as messages of the API server write it: ``spec.containers[0].image``."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return "".join(parts).removeprefix(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullAccess:
    """The credentials for registries in a Pod spec."""

    secrets: tuple[str, ...] = ()
    service_account: str = "default"


def images(obj: Mapping[str, Any]) -> tuple[Image, ...]:
    """Return every image of an object, in order; blank ones are for others to fill in."""
    path = POD_SPECS.get(gvk_of(obj).group_kind)
    if path is None:
        return ()
    return tuple(_images(dig(obj, *path), path))


def pull_access(obj: Mapping[str, Any]) -> PullAccess:
    """Return the credentials of the Pods of an object: pull Secrets, and the ServiceAccount."""
    spec = dig(obj, *POD_SPECS.get(gvk_of(obj).group_kind, ()), default={})
    if not isinstance(spec, Mapping):
        return PullAccess()
    names = tuple(str(entry.get("name") or "") for _, entry in _entries(spec, "imagePullSecrets"))
    # `serviceAccount` is the older name of the field, and the API server keeps both alike.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    return PullAccess(secrets=tuple(filter(None, names)), service_account=str(account))


def with_images(obj: Json, texts: Mapping[Path, str]) -> Json:
    """Return the object with other images at these paths; unchanged parts are shared."""
    changed: Json = obj
    for path, text in texts.items():
        changed = _replaced(changed, path, text)
    return changed


def _images(spec: Any, path: Path) -> Iterator[Image]:
    if not isinstance(spec, Mapping):
        return
    for key, inner, what in _LISTS:
        for number, entry in _entries(spec, key):
            text = dig(entry, *inner)
            if isinstance(text, str) and text.strip():
                name = entry.get("name")
                owner = f"{what} '{name}'" if name else f"{what} {number}"
                yield Image(path=(*path, key, number, *inner), owner=owner, text=text)


def _entries(spec: Mapping[str, Any], key: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    listed = spec.get(key)
    for number, entry in enumerate(listed if isinstance(listed, Sequence) else ()):
        if isinstance(entry, Mapping):
            yield number, entry


def _replaced(node: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    copied = node.copy()
    copied[path[0]] = _replaced(node[path[0]], path[1:], text)
    return copied
