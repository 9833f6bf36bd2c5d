"""The grant that a refusal names is the one that would allow what was refused, and no more."""

from dataclasses import replace

import msgspec
import yaml

from crds.policy_referencegrant import ReferenceGrant
from tests.fakes.granting import KUSTOMIZE, SOURCE, allowing
from toolkit.objects import GroupVersionKind, ObjectRef
from toolkit.policy import remedies

HOLDER = ObjectRef(GroupVersionKind(KUSTOMIZE, "v1", "Kustomization"), "team", "app")


def git(name: str, namespace: str = "platform") -> ObjectRef:
    return ObjectRef(GroupVersionKind(SOURCE, "v1", "GitRepository"), namespace, name)


def applied(text: str) -> list[ReferenceGrant]:
    """Read the line of a remedy as kubectl would."""
    _, _, rest = text.partition("apply: ")
    found = yaml.safe_load(rest.removesuffix(f" (see {remedies.PAGE})"))
    return [msgspec.convert(each, ReferenceGrant) for each in found.get("items", [found])]


def test_the_line_is_one_grant_that_allows_the_reference_and_no_other() -> None:
    text = remedies.remedy(HOLDER, [git("fleet")])

    assert text == (
        'to allow it, apply: {apiVersion: "policy.penstock.dev/v1alpha1", kind: "ReferenceGrant", '
        'metadata: {name: "team-60bd88ee", namespace: "platform"}, spec: {from: '
        '[{group: "kustomize.toolkit.fluxcd.io", kind: "Kustomization", namespace: "team"}], to: '
        '[{group: "source.toolkit.fluxcd.io", kind: "GitRepository", name: "fleet"}]}} '
        "(see docs/tenancy.md#references-to-other-namespaces)"
    )
    policy = allowing(*applied(text))
    assert policy.denial(HOLDER, git("fleet")) is None
    assert policy.denial(HOLDER, git("other")) is not None


def test_references_into_several_namespaces_take_a_grant_in_each() -> None:
    targets = [git("a"), git("b", "infra"), git("c"), git("a")]

    given = applied(remedies.remedy(HOLDER, targets))

    assert [each.metadata.namespace for each in given] == ["infra", "platform"]
    by_namespace = {each.metadata.namespace: allowing(each) for each in given}
    assert all(by_namespace[t.namespace].denial(HOLDER, t) is None for t in targets)


def test_names_that_yaml_would_take_for_numbers_stay_names() -> None:
    holder = ObjectRef(HOLDER.gvk, "1e3", "app")

    (given,) = applied(remedies.remedy(holder, [git("0x10", "null")]))

    assert (given.metadata.namespace, given.spec.to[0].name) == ("null", "0x10")


def test_a_name_cannot_break_out_of_the_line() -> None:
    evil = """x", namespace: "*"}]}} --- {kind: "Secret' $(reboot)"""

    text = remedies.remedy(HOLDER, [git(evil)])

    (given,) = applied(text)
    assert "'" not in text
    assert given.spec.to[0].name == evil
    assert given.spec.from_[0].namespace == "team"


def test_grants_of_other_content_have_other_names() -> None:
    names = {
        remedies.grants(HOLDER, targets)[0]["metadata"]["name"]
        for targets in ([git("a")], [git("b")], [git("a"), git("b")])
    }

    assert len(names) == 3


def test_a_grant_has_one_name_in_whatever_order_it_is_asked_for() -> None:
    targets = [git("b"), git("a")]

    (found,) = remedies.grants(HOLDER, targets)

    assert [found] == remedies.grants(HOLDER, targets[::-1])
    assert [found] == remedies.merged((HOLDER, each) for each in targets)


def test_a_long_remedy_says_how_much_it_covers() -> None:
    text = remedies.remedy(HOLDER, [git(f"source-{number}") for number in range(900)])

    covered = len(applied(text)[0].spec.to)
    assert f"to allow it (the first {covered} of 900), apply: " in text
    assert len(text) < remedies.LONGEST + 100


def test_a_merged_grant_allows_its_pairs_and_stays_within_the_bounds_of_a_list() -> None:
    pairs = [
        (replace(HOLDER, namespace=f"team-{number}"), git(name))
        for number in range(70)
        for name in ("a", "b")
    ]

    found = remedies.merged([*pairs, (replace(HOLDER, namespace="team-0"), git("c"))])

    sizes = sorted(len(each["spec"]["from"]) for each in found)
    assert sizes == [1, 5, 64]
    alone = next(each for each in found if len(each["spec"]["from"]) == 1)
    assert [each["name"] for each in alone["spec"]["to"]] == ["a", "b", "c"]
    assert len({each["metadata"]["name"] for each in found}) == 3
