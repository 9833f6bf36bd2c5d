"""The cached part of a live object: enough to detect drift and health.

An object of several kilobytes becomes a few hundred bytes: its identity, a digest of our fields,
the other managers, and its health by the built-in rules. CEL rules need the whole object and a
worker (``judging``).
"""

import sys
from dataclasses import dataclass
from typing import Final

from toolkit.apply import fields, health, ownership
from toolkit.apply.fields import Writer
from toolkit.apply.health import Health, Rule
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef, dig

_NAMED: Final = ("name", "namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The relevant part of a live object.

    - ``entry`` is the digest of our managedFields entry, ``stamp`` is its time.
    - ``rule`` is the key of the CEL rule for ``health``; empty for a built-in rule.
    - ``settled`` tells that no CEL rule changes ``health``.
    - ``kept`` tells that its marks forbid its deletion.
    - ``leaving`` tells that it is being deleted.
    """

    uid: str
    resource_version: str
    entry: str
    writers: tuple[Writer, ...]
    owner: ObjectKey | None
    health: Health
    rule: str
    settled: bool = False
    stamp: str = ""
    kept: bool = False
    leaving: bool = False

    def changed_by(self, old: "Live | None") -> tuple[str, ...]:
        """Return the managers that have written since ``old``.

        These are the managers whose entry has another time. If all times are within one second,
        these are the managers whose fields differ, which may also be because others took fields
        from them.
        """
        if old is None:
            return ()
        before = set(old.writers)
        stamps = {(writer.manager, writer.operation, writer.time) for writer in before}
        changed = [writer for writer in self.writers if writer not in before]
        stamped = [w for w in changed if (w.manager, w.operation, w.time) not in stamps]
        return tuple(sorted({writer.manager for writer in stamped or changed}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Projector:
    """Makes ``Live`` values of one kind."""

    gvk: GroupVersionKind
    manager: str
    group: str

    def project(self, obj: Json) -> Live:
        """Project an object; items of lists lack their kind."""
        named = self.named(obj)
        labelled = ownership.owner_of(named, self.group)
        return Live(
            uid=str(dig(obj, "metadata", "uid", default="")),
            resource_version=str(dig(obj, "metadata", "resourceVersion", default="")),
            entry=fields.entry_digest(obj, self.manager),
            writers=fields.other_writers(obj, self.manager),
            owner=labelled,
            health=health.assess(named),
            rule="",
            settled=health.settled(named) is not None,
            stamp=sys.intern(fields.stamp(obj, self.manager)),
            kept=labelled is not None and not ownership.prunable(named, self._owner(labelled)),
            leaving=bool(dig(obj, "metadata", "deletionTimestamp")),
        )

    def named(self, obj: Json) -> Json:
        """Return an object with its kind."""
        return {"apiVersion": self.gvk.api_version, "kind": self.gvk.kind, **obj}

    def ref(self, obj: Json) -> ObjectRef:
        """Return the reference to an object."""
        name, namespace = (str(dig(obj, "metadata", key, default="")) for key in _NAMED)
        return ObjectRef(self.gvk, namespace, name)

    def _owner(self, key: ObjectKey) -> ownership.Owner:
        return ownership.Owner(namespace=key.namespace, name=key.name, group=self.group)


def rule_for(rules: tuple[Rule, ...], gvk: GroupVersionKind) -> Rule | None:
    """Return the rule that judges objects of this kind; None for the built-in ones."""
    sample = {"apiVersion": gvk.api_version, "kind": gvk.kind}
    return next((rule for rule in rules if rule.covers(sample)), None)


def judged(live: Live, rules: tuple[Rule, ...], gvk: GroupVersionKind) -> bool:
    """Tell whether an object was judged by the rule for its kind."""
    rule = rule_for(rules, gvk)
    return live.settled or live.rule == (rule.key if rule else "")


def older(version: str, other: str) -> bool:
    """Tell whether ``version`` is before ``other`` (numbers, KEP-5504); False if incomparable."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)
