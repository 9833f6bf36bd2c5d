"""The ReferenceGrants that would allow denied references, as objects and as one line. Pure.

A grant names the holders' namespace and each target, so it allows no more than was asked for. Its
name contains a digest of its content, so that it replaces no other grant when it is applied.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from crds.policy_referencegrant import GROUP
from toolkit.objects import GroupVersionKind, Json, ObjectRef

PAGE: Final = "docs/tenancy.md#references-to-other-namespaces"
LOCKED_PAGE: Final = "docs/tenancy.md#lock-down"
LONGEST: Final = 900
"""Maximal length of the line, so that a condition has room for it and the refused references."""
_MOST: Final = 64
"""Maximal length of each list of a grant, from its schema."""
_T = TypeVar("_T")
_Holder: TypeAlias = tuple[str, str, str]
"""Group, kind and namespace."""
_Target: TypeAlias = tuple[str, str, str]
"""Group, kind and name."""


def grants(holder: ObjectRef, targets: Iterable[ObjectRef]) -> list[Json]:
    """Return the grants that allow these references of one holder, as ``merged`` names them."""
    return merged((holder, target) for target in targets)


def merged(wanted: Iterable[tuple[ObjectRef, ObjectRef]]) -> list[Json]:
    """Return grants that allow these pairs of holder and target, and no others.

    A grant allows all of its holders to refer to all of its targets. So holders share a grant only
    if they need the same targets of a namespace. The order of the pairs does not matter.
    """
    needed: dict[tuple[str, _Holder], dict[_Target, None]] = {}
    for holder, target in wanted:
        place = target.namespace, (*holder.gvk.group_kind, holder.namespace)
        needed.setdefault(place, {})[*target.gvk.group_kind, target.name] = None
    shared: dict[tuple[str, tuple[_Target, ...]], list[_Holder]] = {}
    for (namespace, by), targets in sorted(needed.items()):
        shared.setdefault((namespace, tuple(sorted(targets))), []).append(by)
    return [
        _grant([_ref(*each) for each in some], namespace, list(part))
        for (namespace, targets), holders in shared.items()
        for some in _parts(holders)
        for part in _parts(targets)
    ]


def remedy(holder: ObjectRef, targets: Sequence[ObjectRef]) -> str:
    """Return the grants to apply, in one line, and the documentation page.

    The line covers as many of the targets as fit, at least the first one.
    """
    wanted = list(dict.fromkeys(targets))
    covered, text = 1, line(grants(holder, wanted[:1]))
    while covered < len(wanted):
        longer = line(grants(holder, wanted[: covered + 1]))
        if len(longer) > LONGEST:
            break
        covered, text = covered + 1, longer
    which = f" (the first {covered} of {len(wanted)})" if covered < len(wanted) else ""
    return f"to allow it{which}, apply: {text} (see {PAGE})"


def line(objects: Sequence[Json]) -> str:
    """Return objects as one line of YAML that ``kubectl apply -f -`` takes."""
    whole = objects[0] if len(objects) == 1 else _list(objects)
    return _flow(whole)


def _parts(whole: Sequence[_T]) -> list[Sequence[_T]]:
    return [whole[start : start + _MOST] for start in range(0, len(whole), _MOST)]


def _ref(group: str, kind: str, namespace: str) -> ObjectRef:
    return ObjectRef(GroupVersionKind(group, "", kind), namespace, "")


def _grant(holders: Sequence[ObjectRef], namespace: str, targets: list[_Target]) -> Json:
    spec = {
        "from": [
            {"group": each.gvk.group, "kind": each.gvk.kind, "namespace": each.namespace}
            for each in holders
        ],
        "to": [{"group": g, "kind": k, "name": name} for g, k, name in targets],
    }
    digest = hashlib.sha256(msgspec.json.encode(spec)).hexdigest()[:8]
    users = {each.namespace for each in holders}
    whose = holders[0].namespace if len(users) == 1 else f"{len(users)}-namespaces"
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": {"name": f"{whose}-{digest}", "namespace": namespace},
        "spec": spec,
    }


def _list(objects: Sequence[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def _flow(value: object) -> str:
    """Return a value in YAML's flow style; all strings are quoted."""
    match value:
        case dict():
            inner = ", ".join(f"{key}: {_flow(each)}" for key, each in value.items())
            return f"{{{inner}}}"
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case _:
            # the line may be pasted between single quotes of a shell
            return msgspec.json.encode(value).decode().replace("'", r"\u0027")
