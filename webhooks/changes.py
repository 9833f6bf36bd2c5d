"""Which writes change what plugins decide by, told by the API server itself.

Finalizers, annotations and labels of Penstock's kinds are written more often than their specs. A
plugin that judges by the spec alone, and only what a write brings, is not asked about them: a
condition compares both versions before any request is sent. It sees what the plugin would see: the
objects as stored and as they are to be stored, converted to the version of the rule, after all
mutations.

What the condition cannot compare is asked about: creation, and an object that has no spec, or had
none.
"""

from typing import Final

from webhooks.plugin import Condition

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
