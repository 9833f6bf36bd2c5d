"""Take over fields from earlier managers of an object.

Fields of ``kubectl`` (client-side apply, create, edit, server-side apply), ``before-first-apply``
and our own plain updates become ours, so that a field which is removed from the manifest is removed
from the object too. Operators may name further managers. This is one JSON patch of
``metadata.managedFields``, which fails if these entries have changed meanwhile. Flux does the same
(fluxcd/pkg ``ssa`` ``PatchReplaceFieldsManagers``). Entries of subresources stay.

Pure: ``ssa`` sends the patch.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from toolkit.apply import fields
from toolkit.apply.ownership import LAST_APPLIED
from toolkit.objects import Json, dig

_BEFORE: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
_ENTRIES: Final = "/metadata/managedFields"


def due(obj: Json, manager: str, overridden: Collection[str] = ()) -> bool:
    """Tell whether other managers' fields, or kubectl's annotation, must be taken over."""
    noted = LAST_APPLIED in dig(obj, "metadata", "annotations", default={})
    return noted or any(_taken(fields.entries(obj), manager, overridden))


def patch(
    live: Json, *, answer: Json, manager: str, overridden: Collection[str] = ()
) -> list[Json]:
    """Return the JSON patch that makes those fields ours.

    It tests only the entries that it replaces, so a status update in between does not matter.
    ``answer`` is the answer to a dry-run of our apply: for an object without managedFields the
    server adds ``before-first-apply`` there.
    """
    present = fields.entries(live)
    operations = _replaced(present, live, manager, overridden) if present else []
    if not present:
        taken = list(_taken(fields.entries(answer), manager, overridden))
        operations = [
            # an optimistic lock: the server answers 409 when the object changed since it was read
            _operation(
                "add", "/metadata/resourceVersion", dig(live, "metadata", "resourceVersion")
            ),
            _operation("add", _ENTRIES, [_merged(None, taken, live, manager)]),
        ]
    if LAST_APPLIED in dig(live, "metadata", "annotations", default={}):
        operations.append(_operation("remove", f"/metadata/annotations/{_escape(LAST_APPLIED)}"))
    return operations


def _replaced(
    present: Sequence[Json], live: Json, manager: str, overridden: Collection[str]
) -> list[Json]:
    taken = list(_taken(present, manager, overridden))
    if not taken:
        return []
    own = fields.applied_entry(live, manager)
    gone = [i for i, entry in enumerate(present) if entry is own or entry in taken]
    place = gone.pop(0)
    return [
        *(_operation("test", f"{_ENTRIES}/{i}", present[i]) for i in (place, *gone)),
        _operation("replace", f"{_ENTRIES}/{place}", _merged(own, taken, live, manager)),
        # From the back, because a removal moves the entries after it.
        *(_operation("remove", f"{_ENTRIES}/{i}") for i in reversed(gone)),
    ]


def _taken(entries: Iterable[Json], manager: str, overridden: Collection[str]) -> Iterable[Json]:
    for entry in entries:
        name, operation = str(entry.get("manager") or ""), entry.get("operation")
        own_update = name == manager and operation == fields.UPDATE
        foreign = name.startswith(_KUBECTL) or name == _BEFORE or name in overridden
        if (own_update or (foreign and name != manager)) and not entry.get("subresource"):
            yield entry


def _merged(own: Json | None, taken: Iterable[Json], live: Json, manager: str) -> Json:
    sources = [*([own] if own else []), *taken]
    stamps = [entry["time"] for entry in sources if entry.get("time")]
    return {
        "manager": manager,
        "operation": fields.APPLY,
        "apiVersion": own["apiVersion"] if own else live["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": fields.union([entry.get("fieldsV1") or {} for entry in sources]),
        **({"time": max(stamps)} if stamps else {}),
    }


def _operation(name: str, path: str, value: object = None) -> Json:
    return {"op": name, "path": path, **({} if name == "remove" else {"value": value})}


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")
