"""Markers that change nothing: those that are not beside a value, or name no policy.

They are comments, so without a message nobody learns why an image stays as it is. The condition
``MarkersIgnored`` of the automation lists them. Markers of other namespaces belong to other
automations of the same repository, so they are listed only if there are no others.
"""

from collections.abc import Collection
from typing import Final

from controllers.image.updating import Draft
from crds.image_automation import ImageUpdateAutomation
from toolkit.kube import conditions
from toolkit.kube.controller import Reconciliation

IGNORED: Final = "MarkersIgnored"
REASON: Final = "MarkersIgnored"
_SHOWN: Final = 5
_LONGEST: Final = 256


def tell(
    rec: Reconciliation[ImageUpdateAutomation], draft: Draft, policies: Collection[str]
) -> None:
    """Set the condition, and send an event if it changed; ``policies`` are those that exist."""
    before = conditions.find(rec.conditions, IGNORED)
    found = problems(draft, rec.key.namespace, policies)
    if not found:
        rec.unmark(IGNORED)
        return
    more = len(found) - _SHOWN
    message = "; ".join(found[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    rec.mark(IGNORED, "True", REASON, message)
    if (before or {}).get("message") != conditions.shortened(message):
        rec.event("info", REASON, message)


def problems(draft: Draft, namespace: str, policies: Collection[str]) -> list[str]:
    """Return what is wrong with markers, in words."""
    own = [each for each in draft.policies if each.startswith(f"{namespace}:")]
    found = [
        f"markers name '{_shown(each)}', but there is no ImagePolicy of this name in "
        f"namespace '{namespace}'"
        for each in own
        if each.partition(":")[2] not in policies
    ]
    if draft.policies and not own:
        found.append(
            f"no marker names a policy of namespace '{namespace}', but "
            f"'{_shown(draft.policies[0])}': an automation uses the policies of its own namespace"
        )
    found += [
        f"{_shown(each.path)}:{each.line}: the marker is not beside a value on one line"
        for each in draft.misplaced
    ]
    return found


def _shown(text: str) -> str:
    """Return a text of the repository, which may be long and hold control characters."""
    return repr(text[:_LONGEST])[1:-1]
