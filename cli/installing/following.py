"""What ``penstock bootstrap`` has put into the namespace of an installation. Pure.

The Secret with the credentials of the repository has no label of an installation, because another
installation would then delete it as one of its old objects. Each object is proven by the one before
it:

1. the pods of the installation are applied by the Kustomization that has the name of the namespace;
2. that Kustomization applies itself, and the source that it names, from the repository;
3. the Secret is the one that the source names, and only this command has written its data.

An object without its proof belongs to the user.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from cli.stack import install
from crds import GIT_REPOSITORY, KUSTOMIZATION
from toolkit.apply import fields
from toolkit.objects import Json, ObjectRef, dig, gvk_of, key_of, ref_of

_OWNER: Final = KUSTOMIZATION.group
_DEPLOYMENT: Final = ("apps", "Deployment")
_SECRET: Final = ("", "Secret")


def made(namespace: str, objects: Iterable[Json]) -> frozenset[ObjectRef]:
    """Return which of the objects of a namespace and of its installation bootstrap has made."""
    return frozenset(map(ref_of, _made(namespace, list(objects))))


def _made(namespace: str, objects: list[Json]) -> Iterator[Json]:
    kustomization = _find(objects, (KUSTOMIZATION.group, KUSTOMIZATION.kind), namespace, namespace)
    # 1
    pods = [each for each in objects if gvk_of(each).group_kind == _DEPLOYMENT]
    if kustomization is None or not any(_applied(each, namespace) for each in pods):
        return
    # 2
    if not _applied(kustomization, namespace):
        return
    yield kustomization
    named = dig(kustomization, "spec", "sourceRef", default={})
    source = _find(
        objects, (GIT_REPOSITORY.group, GIT_REPOSITORY.kind), namespace, str(named.get("name"))
    )
    here = named.get("kind") == GIT_REPOSITORY.kind and named.get("namespace", namespace)
    if source is None or here != namespace or not _applied(source, namespace):
        return
    yield source
    # 3
    name = str(dig(source, "spec", "secretRef", "name", default=""))
    secret = _find(objects, _SECRET, namespace, name)
    if secret is not None and _written_here(secret):
        yield secret


def _find(objects: list[Json], kind: tuple[str, str], namespace: str, name: str) -> Json | None:
    for each in objects:
        key = key_of(each)
        if (key.namespace, key.name) == (namespace, name) and gvk_of(each).group_kind == kind:
            return each
    return None


def _applied(obj: Json, namespace: str) -> bool:
    """Tell whether the Kustomization of the installation has applied an object."""
    labels = dig(obj, "metadata", "labels", default={})
    return all(labels.get(f"{_OWNER}/{part}") == namespace for part in ("name", "namespace"))


def _written_here(secret: Json) -> bool:
    """Tell whether all data is this command's, by server-side apply."""
    owners = {
        (entry.get("manager"), entry.get("operation"))
        for entry in fields.entries(secret)
        if {"f:data", "f:stringData"} & (entry.get("fieldsV1") or {}).keys()
    }
    return owners == {(install.MANAGER, fields.APPLY)}
