"""The objects that an object names and whose existence can be checked. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from crds import KINDS
from toolkit.kube.secrets import CONFIG_MAP, SECRET
from toolkit.objects import GroupVersionKind, Json, ObjectKey, key_of
from toolkit.policy import fieldpaths
from webhooks.validation.rule import Checks

_SERVICE_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")

CORE: Final[Mapping[str, tuple[GroupVersionKind, str]]] = MappingProxyType(
    {
        "Secret": (SECRET, "secrets"),
        "ConfigMap": (CONFIG_MAP, "configmaps"),
        "ServiceAccount": (_SERVICE_ACCOUNT, "serviceaccounts"),
    }
)
"""Kinds of the cluster that fields name, with their plurals."""
OURS: Final[Mapping[str, tuple[GroupVersionKind, str]]] = MappingProxyType(
    {
        kind.kind: (GroupVersionKind(*kind.gvk), kind.plural)
        for kind in KINDS
        if kind.group != "policy.penstock.dev"
    }
)
"""Penstock's kinds that fields can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """An object that a field names; ``path`` is the path in general, ``field`` the exact one.

    ``data_key`` is the key that the object must have, ``key_field`` the field that names it; both
    are empty if no single key is needed.
    """

    path: str
    field: str
    gvk: GroupVersionKind
    plural: str
    key: ObjectKey
    data_key: str = ""
    key_field: str = ""

    def __str__(self) -> str:
        return f"{self.gvk.kind} '{self.key}'"


def mentions(checks: Checks[Any], obj: Json) -> Iterator[Mention]:
    """Yield the objects that a spec names, without optional ones and foreign kinds."""
    own = key_of(obj).namespace
    if not own:
        return
    for named in checks.names:
        for field, value in fieldpaths.values(obj, named.path):
            reference = value if isinstance(value, dict) else {"name": value}
            kind = str(reference.get("kind") or named.kind)
            known = CORE.get(kind) or OURS.get(kind)
            name = str(reference.get("name") or "")
            if known is None or not name or reference.get("optional"):
                continue
            key_field, usual = named.data_key or ("", "")
            yield Mention(
                path=named.path,
                field=field,
                gvk=known[0],
                plural=known[1],
                key=ObjectKey(str(reference.get("namespace") or own), name),
                data_key=str(reference.get(key_field) or usual),
                key_field=key_field,
            )
