"""Choose policies by the labels of a namespace (apimachinery ``labels``). Pure.

``In`` needs the label, ``NotIn`` and ``DoesNotExist`` hold where it is missing.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from crds.meta import ObjectMeta
from crds.policy_parts import LabelSelector, LabelSelectorRequirement


class Selecting(Protocol):
    """The spec of a policy that holds in some namespaces."""

    @property
    def namespace_selector(self) -> LabelSelector | None:
        """Return which; None leaves it to the kind."""


class Policy(Protocol):
    """A policy of any kind that selects namespaces."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return the metadata."""

    @property
    def spec(self) -> Selecting:
        """Return where it holds."""


P = TypeVar("P", bound=Policy)


def applicable(
    policies: Iterable[P], *, namespace: str, labels: Mapping[str, str], installed: str
) -> tuple[P, ...]:
    """Return the policies that hold for a namespace, by name.

    One without a selector holds for all but ``installed``, the namespace of Penstock itself.
    """
    return selecting(policies, labels, otherwise=namespace != installed)


def selecting(
    policies: Iterable[P], labels: Mapping[str, str], *, otherwise: bool
) -> tuple[P, ...]:
    """Return the policies that select these labels, by name.

    Those without a selector are among them if ``otherwise``.
    """
    chosen = (
        policy
        for policy in policies
        if (
            otherwise
            if policy.spec.namespace_selector is None
            else matches(policy.spec.namespace_selector, labels)
        )
    )
    return tuple(sorted(chosen, key=lambda policy: policy.metadata.name))


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether the labels satisfy the selector; an empty selector matches everything."""
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
