"""Which policies hold in a namespace: those whose selector its labels satisfy."""

from typing import Any

import msgspec
import pytest

from crds.policy_image import ImageVerificationPolicy
from crds.policy_parts import LabelSelector
from crds.policy_source import SourcePolicy
from toolkit.policy import selectors

_SPECS: dict[type[Any], dict[str, Any]] = {
    SourcePolicy: {"sources": [{"kind": "GitRepository", "urls": ["https://example.com/**"]}]},
    ImageVerificationPolicy: {
        "images": ["ghcr.io/acme/**"],
        "verifiers": [{"name": "a", "notation": {"secretRef": {"name": "a"}}}],
    },
}


def policy(kind: type[Any], name: str, **selector: str) -> Any:
    """Return a policy; without labels it has no selector."""
    spec = _SPECS[kind] | ({"namespaceSelector": {"matchLabels": selector}} if selector else {})
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, kind)


@pytest.mark.parametrize("kind", _SPECS)
@pytest.mark.parametrize(
    ("namespace", "labels", "found"),
    [
        ("apps", {"tier": "prod"}, ["a", "b"]),
        ("apps", {"tier": "test"}, ["b"]),
        ("apps", {}, ["b"]),
        ("penstock-system", {}, []),
        ("penstock-system", {"tier": "prod"}, ["a"]),
    ],
)
def test_policies_of_a_namespace_are_those_that_select_it_by_name(
    kind: type[Any], namespace: str, labels: dict[str, str], found: list[str]
) -> None:
    given = [policy(kind, "b"), policy(kind, "a", tier="prod")]

    chosen = selectors.applicable(
        given, namespace=namespace, labels=labels, installed="penstock-system"
    )

    assert [each.metadata.name for each in chosen] == found


@pytest.mark.parametrize(
    ("operator", "values", "found"),
    [
        ("In", ["prod"], [True, False, False]),
        ("NotIn", ["prod"], [False, True, True]),
        ("Exists", [], [True, True, False]),
        ("DoesNotExist", [], [False, False, True]),
    ],
)
def test_expressions_mean_what_they_mean_to_kubernetes(
    operator: str, values: list[str], found: list[bool]
) -> None:
    expression = {"key": "tier", "operator": operator, "values": values}
    selector = msgspec.convert({"matchExpressions": [expression]}, LabelSelector)

    labels: list[dict[str, str]] = [{"tier": "prod"}, {"tier": "test"}, {}]

    assert [selectors.matches(selector, each) for each in labels] == found
