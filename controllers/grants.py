"""Keep ReferenceGrants at hand, and wake whom a grant, or the end of one, concerns."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from controllers.index import Index
from crds import REFERENCE_GRANT
from crds.policy_referencegrant import ReferenceGrant
from toolkit.kube.informer import Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.grants import Grants

_KIND: Final = GroupVersionKind(*REFERENCE_GRANT.gvk)

PERMISSIONS: Final = (
    # Which references of other namespaces are allowed.
    Rule(
        groups=(REFERENCE_GRANT.group,),
        resources=(REFERENCE_GRANT.plural,),
        verbs=("get", "list", "watch"),
    ),
)


def follow(manager: Manager, options: Options) -> Grants:
    """Return the grants, kept by an informer of the manager's."""
    informer: Informer[ReferenceGrant] = Informer(
        manager.client,
        _KIND,
        decode=msgspec.json.Decoder(ReferenceGrant).decode,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    manager.add_informer(informer)
    return Grants(informer)


def needed(own: str, used: Iterable[ObjectRef]) -> Iterator[ObjectRef]:
    """Yield, for an index, what stands for the grants that these references need."""
    for namespace in {ref.namespace for ref in used} - {own}:
        yield _stand_in(namespace)


def wake(namespace: str, enqueue: Callable[[ObjectKey, str], None], index: Index) -> None:
    """Wake who refers into a namespace whose grants have changed."""
    for key in index.users(_stand_in(namespace)):
        enqueue(key, "grant")


def _stand_in(namespace: str) -> ObjectRef:
    return ObjectRef(_KIND, namespace, "")
