"""Which images an object would run, where they stand in it, and the same object with others.

Pods and all that holds a template of them. Whatever the kubelet or the runtime pulls counts:
containers, init containers, ephemeral containers, and volumes that are images (KEP-4639). The kinds
are looked up without their version, so that an old one is not a way around.

Pure; an object that is not shaped as it must be is left to the API server's own validation.
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

# Lists of a spec of Pods, the way from an entry to its image, and what messages call an entry.
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
    """What a spec of Pods says about signing in at registries."""

    secrets: tuple[str, ...] = ()
    service_account: str = "default"


def images(obj: Mapping[str, Any]) -> tuple[Image, ...]:
    """Return every image of an object, in order; blank ones are for others to fill in."""
    path = POD_SPECS.get(gvk_of(obj).group_kind)
    if path is None:
        return ()
    return tuple(_images(dig(obj, *path), path))


def pull_access(obj: Mapping[str, Any]) -> PullAccess:
    """Return how the Pods of an object sign in: their pull Secrets, and their ServiceAccount."""
    spec = dig(obj, *POD_SPECS.get(gvk_of(obj).group_kind, ()), default={})
    if not isinstance(spec, Mapping):
        return PullAccess()
    names = tuple(str(entry.get("name") or "") for _, entry in _entries(spec, "imagePullSecrets"))
    # `serviceAccount` is the older name of the field, and the API server keeps both alike.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    return PullAccess(secrets=tuple(filter(None, names)), service_account=str(account))


def with_images(obj: Json, texts: Mapping[Path, str]) -> Json:
    """Return the object with other images at these paths; what is not changed is shared."""
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
