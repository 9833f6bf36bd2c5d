"""What an applier does not delete, whatever leaves its build.

The deletion of a Namespace or of a definition (CRD) deletes objects that come from no build of the
applier. So some namespaces are always kept, and some definitions while objects of their kind exist.
"""

from dataclasses import dataclass
from typing import Final

from toolkit.kube import client, errors
from toolkit.objects import GroupVersionKind, ObjectRef, dig

DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_ONE: Final = {"limit": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The names of namespaces that are kept, and the API groups of definitions that are."""

    namespaces: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def keeps(self, ref: ObjectRef) -> bool:
        """Tell whether the object is a Namespace that is never deleted."""
        return ref.name in self.namespaces and ref.gvk.group_kind == ("", "Namespace")

    def guards(self, ref: ObjectRef) -> bool:
        """Tell whether the object is a definition that is kept while it is ``in_use``."""
        # The API server requires the name to be <plural>.<group>.
        group = ref.name.partition(".")[2]
        return group in self.groups and ref.gvk.group_kind == DEFINITION.group_kind


NOTHING: Final = Retention()


async def in_use(api: client.Client, name: str) -> bool:
    """Tell whether objects of the kind that a definition defines exist, or that is unknown.

    It is unknown if the identity of the client may not read the definition or list the objects, or
    if no version of the kind is served: the store may hold objects all the same.

    Raises:
        ApiError: the server cannot be reached.
    """
    try:
        spec = dig(await api.get(DEFINITION, name), "spec", default={})
    except errors.NotFoundError:
        return False
    except errors.ForbiddenError:
        return True
    served = [each["name"] for each in spec.get("versions", ()) if each.get("served")]
    if not served:
        return True
    path = f"/apis/{spec['group']}/{served[-1]}/{spec['names']['plural']}"
    try:
        return bool((await api.request("GET", path, query=_ONE)).get("items"))
    except (errors.NotFoundError, errors.ForbiddenError):
        return True
