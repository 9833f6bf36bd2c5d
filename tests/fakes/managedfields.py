"""An object and its managedFields, as structured-merge-diff keeps them (v6 ``merge/update.go``).

Enough to think through every order of writes: fields are flat, and time has whole seconds.
``tests/contract/apply/test_stamps.py`` holds it against the API server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit.objects import Json


@dataclass(frozen=True, slots=True)
class Entry:
    """What a manager owns; ``second`` is None until a write of its own changed a value."""

    fields: frozenset[str]
    second: int | None


Managers = tuple[tuple[tuple[str, str], Entry], ...]
Values = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Simulated:
    """A live object: fields are named ``data/key`` or ``label/key``."""

    values: Values = ()
    managers: Managers = ()

    def entry(self, manager: str, operation: str) -> Entry | None:
        """Return the entry of a manager."""
        return dict(self.managers).get((manager, operation))

    def apply(self, manager: str, wanted: Mapping[str, str], *, second: int) -> "Simulated":
        """Server-side apply with force."""
        who = (manager, "Apply")
        entries = dict(self.managers)
        last = entries.pop(who, Entry(frozenset(), None))
        kept = {name for entry in entries.values() for name in entry.fields}
        dropped = last.fields - wanted.keys() - kept
        values = {k: v for k, v in self.values if k not in dropped} | dict(wanted)
        entries = _taken(entries, dict(self.values), values)
        # the stamp is of the last apply that changed a value
        changed = values != dict(self.values)
        if wanted:
            entries[who] = Entry(frozenset(wanted), second if changed else last.second)
        return _object(values, entries)

    def update(
        self, manager: str, changes: Mapping[str, str | None], *, second: int
    ) -> "Simulated":
        """Patch or update: None removes a field."""
        who = (manager, "Update")
        values = dict(self.values)
        for name, value in changes.items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        before = dict(self.values)
        set_ = {name for name in values if values[name] != before.get(name)}
        entries = _taken(dict(self.managers), before, values)
        if set_:
            own = entries.get(who, Entry(frozenset(), None))
            entries[who] = Entry(own.fields | set_, second)
        return _object(values, entries)

    def shifted(self, seconds: Mapping[int | None, int | None]) -> "Simulated":
        """Return it with other stamps."""
        entries = {k: replace(e, second=seconds[e.second]) for k, e in self.managers}
        return _object(dict(self.values), entries)

    def json(self) -> Json:
        """Return the object as the API server shows it."""
        tops: dict[str, Any] = {"data": {}, "label": {}}
        for name, value in self.values:
            top, _, key = name.partition("/")
            tops[top][key] = value
        entries = [
            {"manager": manager, "operation": operation, "apiVersion": "v1"}
            | {"fieldsType": "FieldsV1", "fieldsV1": _tree(entry.fields)}
            | ({} if entry.second is None else {"time": f"2026-01-01T00:00:{entry.second:02}Z"})
            for (manager, operation), entry in self.managers
        ]
        metadata = {"uid": "u", "labels": tops["label"], "managedFields": entries}
        return {"metadata": metadata, "data": tops["data"]}


def _taken(
    entries: Mapping[tuple[str, str], Entry], before: dict[str, str], after: dict[str, str]
) -> dict[tuple[str, str], Entry]:
    """Take what has another value, or none, from all who own it; their stamps stay."""
    lost = {name for name in before | after if before.get(name) != after.get(name)}
    return {k: replace(e, fields=e.fields - lost) for k, e in entries.items() if e.fields - lost}


def _object(values: dict[str, str], entries: dict[tuple[str, str], Entry]) -> Simulated:
    return Simulated(tuple(sorted(values.items())), tuple(sorted(entries.items(), key=_key)))


def _key(item: tuple[tuple[str, str], Entry]) -> tuple[str, str]:
    return item[0]


def _tree(fields: frozenset[str]) -> Json:
    tree: dict[str, Any] = {}
    for name in sorted(fields):
        top, _, key = name.partition("/")
        node = tree.setdefault("f:data", {}) if top == "data" else _labels(tree)
        node[f"f:{key}"] = {}
    return tree


def _labels(tree: dict[str, Any]) -> dict[str, Any]:
    labels: dict[str, Any] = tree.setdefault("f:metadata", {}).setdefault("f:labels", {})
    return labels
