"""Tell whether a label selector of a policy means an object (apimachinery ``labels``).

``In`` needs the label, ``NotIn`` and ``DoesNotExist`` hold where it is missing.
"""

from collections.abc import Mapping

from crds.policy_parts import LabelSelector, LabelSelectorRequirement


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether the labels satisfy all of the selector; an empty one means everything."""
    wanted = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return wanted and all(_holds(each, labels) for each in selector.match_expressions)


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
