"""The kinds that events are about and that hooks reconcile: Flux's, and those of its operator.

The operator's kinds need not be served: an Alert or a Receiver may name them before it is
installed.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from crds import KINDS as OWN
from crds import PROVIDER, notification
from toolkit.kube.rbac import Rule
from toolkit.objects import GroupVersionKind

_PLURALS: Final[Mapping[GroupVersionKind, str]] = {
    GroupVersionKind(*kind.gvk): kind.plural
    for kind in OWN
    if "fluxcd" in kind.categories and kind.group != PROVIDER.group
} | {
    GroupVersionKind(notification.OPERATOR_GROUP, notification.OPERATOR_VERSION, kind): plural
    for kind, plural in notification.OPERATOR_KINDS.items()
}

KINDS: Final[Mapping[str, GroupVersionKind]] = {gvk.kind: gvk for gvk in _PLURALS}


def _permissions() -> Iterator[Rule]:
    for group in sorted({gvk.group for gvk in _PLURALS}):
        plurals = tuple(plural for gvk, plural in _PLURALS.items() if gvk.group == group)
        # Labels are read for selectors; a hook lists and annotates.
        yield Rule(groups=(group,), resources=plurals, verbs=("get", "list", "patch"))


PERMISSIONS: Final = tuple(_permissions())
