"""Which writes change what plugins decide by, told by the API server itself.

Finalizers, annotations and labels of Penstock's kinds are written more often than their specs. A
plugin that judges by the spec alone, and only what a write brings, is not asked about them: a
condition compares both versions before any request is sent. It sees what the plugin would see: the
objects as stored and as they are to be stored, converted to the version of the rule, after all
mutations.

What the condition cannot compare is asked about: creation, and an object that has no spec, or had
none.

Validation also judges ``ANNOTATIONS``. Other annotations, such as the request for a reconciliation,
are never judged.
"""

from typing import Final

from crds.image_automation import PULL_REQUEST
from toolkit.objects import Json
from toolkit.policy.imagepolicies import VERIFY
from webhooks.plugin import Condition

ANNOTATIONS: Final = (PULL_REQUEST, VERIFY)
"""Annotations with which users say what a spec of Flux has no field for."""


def annotations(obj: Json) -> Json:
    """Return which of ``ANNOTATIONS`` an object has, with their values."""
    given = (obj.get("metadata") or {}).get("annotations") or {}
    return {name: given[name] for name in ANNOTATIONS if name in given}


def _value(side: str, name: str) -> str:
    """Return an expression for the value of an annotation, as a list that may be empty."""
    given = f"{side}.metadata.annotations"
    return f"(has({given}) && '{name}' in {given} ? [{given}['{name}']] : [])"


_SPEC_CHANGED: Final = (
    "request.operation != 'UPDATE' || !has(oldObject.spec) || !has(object.spec)"
    " || object.spec != oldObject.spec"
)
SPEC: Final = Condition(name="spec-changed", expression=_SPEC_CHANGED)
"""True where a write changes the spec."""
SPEC_OR_SUBRESOURCE: Final = Condition(
    name="spec-changed-or-subresource",
    expression=f"has(request.subResource) && request.subResource != '' || {_SPEC_CHANGED}",
)
"""True where a write changes the spec, or goes to a subresource, for rules that name some."""
SPEC_OR_ANNOTATIONS: Final = Condition(
    name="spec-or-annotations-changed",
    expression=" || ".join(
        (
            _SPEC_CHANGED,
            *(f"{_value('object', each)} != {_value('oldObject', each)}" for each in ANNOTATIONS),
        )
    ),
)
"""True where a write changes the spec, or one of ``ANNOTATIONS``."""
