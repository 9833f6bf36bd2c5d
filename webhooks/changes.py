"""Conditions with which the API server skips writes that cannot change a decision.

Finalizers, annotations and labels of Penstock's kinds are written more often than their specs. A
plugin that only judges changes of the spec need not be called for them: a condition compares both
versions before a request is sent. It gets the same objects as the plugin: old and new, converted to
the version of the rule, after all mutations.

If the condition cannot compare, the plugin is called: for creations, and if one of the objects has
no spec.

Validation also judges ``ANNOTATIONS``. Other annotations, such as the request for a reconciliation,
are never judged.
"""

from typing import Final

from crds.image_automation import PULL_REQUEST
from toolkit.objects import Json
from toolkit.policy.imagepolicies import VERIFY
from webhooks.plugin import Condition

ANNOTATIONS: Final = (PULL_REQUEST, VERIFY)
"""Annotations for settings that a spec of Flux has no field for."""


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
"""True if the write changes the spec, or is for a subresource, for rules with subresources."""


def spec_or(*annotations: str) -> Condition:
    """Return the condition that a write changes the spec, or one of these annotations."""
    return Condition(
        name="spec-or-annotations-changed",
        expression=" || ".join(
            (
                _SPEC_CHANGED,
                *(
                    f"{_value('object', each)} != {_value('oldObject', each)}"
                    for each in annotations
                ),
            )
        ),
    )


SPEC_OR_ANNOTATIONS: Final = spec_or(*ANNOTATIONS)
"""True where a write changes the spec, or one of ``ANNOTATIONS``."""
