"""Plugins that share a webhook are asked about all that they would be asked about alone."""

from typing import Any

import pytest

from toolkit.objects import Json
from webhooks import changes, configuration, joint
from webhooks.configuration import Target
from webhooks.plugin import Answer, Condition, Row, Rule
from webhooks.plugins import PLUGINS
from webhooks.request import Request
from webhooks.services import Services

TARGET = Target(namespace="penstock-system")
SECRETS = Rule(groups=("",), versions=("v1",), resources=("secrets",))
CONFIG_MAPS = Rule(groups=("",), versions=("v1",), resources=("configmaps",))
A, B, C = (Condition(name, f"{name} == 1") for name in "abc")
SHARING = [row for row in PLUGINS if row.webhook]


class Silent:
    """Is never asked."""

    async def review(self, request: Request) -> Answer:
        raise AssertionError(request)


def make(_: Services) -> Silent:
    return Silent()


def row(name: str, *conditions: Condition, **more: Any) -> Row:
    usual = {"webhook": "both", "rules": (SECRETS,), "make": make}
    return Row(**{"name": name, "conditions": conditions, **usual, **more})


def webhooks(*rows: Row) -> list[Json]:
    return [
        each for found in configuration.configurations(rows, TARGET) for each in found["webhooks"]
    ]


def named(webhook: Json) -> set[tuple[str, ...]]:
    """Return which requests the rules of a webhook name, one by one."""
    return {
        (group, version, resource, operation, rule["scope"])
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }


def condition(*rows: Row) -> str:
    (only,) = joint.asked(rows)
    return only.conditions[0].expression if only.conditions else ""


def test_plugins_of_one_name_have_one_webhook() -> None:
    found = webhooks(row("first"), row("alone", webhook=""), row("second", rules=(CONFIG_MAPS,)))

    assert [each["name"].partition(".")[0] for each in found] == ["both", "alone"]
    assert found[0]["clientConfig"]["service"]["path"] == "/admit/both"
    assert {each[2] for each in named(found[0])} == {"secrets", "configmaps"}


def test_a_plugin_that_is_left_alone_has_its_own_webhook() -> None:
    (found,) = webhooks(row("first", fail_open=True, timeout=3))

    assert found["name"].startswith("first.")
    assert (found["failurePolicy"], found["timeoutSeconds"]) == ("Ignore", 3)


def test_it_fails_closed_and_waits_as_the_strictest_of_them() -> None:
    (found,) = webhooks(row("first", fail_open=True, timeout=3), row("second", timeout=7))

    assert (found["failurePolicy"], found["timeoutSeconds"]) == ("Fail", 7)


@pytest.mark.parametrize(
    "different",
    [
        {"object_selector": {"matchLabels": {"a": "b"}}},
        {"namespace_selector": {"matchLabels": {"a": "b"}}},
        {"everywhere": True},
        {"to_the_end": True},
        {"mutating": True},
    ],
    ids=lambda found: next(iter(found)),
)
def test_what_chooses_other_requests_cannot_share(different: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'first' and 'second' cannot share 'both'"):
        list(joint.asked([row("first"), row("second", **different)]))


def test_the_condition_holds_where_those_of_one_plugin_do() -> None:
    assert condition(row("1", A), row("2", B)) == "((a == 1)) || ((b == 1))"
    assert condition(row("1", A, B), row("2", C)) == "((a == 1) && (b == 1)) || ((c == 1))"


def test_what_another_way_contains_is_left_out() -> None:
    assert condition(row("1", A, B), row("2", A), row("3", A)) == "((a == 1))"


def test_one_plugin_without_a_condition_is_asked_about_everything() -> None:
    assert condition(row("1", A), row("2")) == ""


def test_shipped_plugins_are_asked_about_all_that_their_rules_name() -> None:
    (together,) = webhooks(*SHARING)

    for each in SHARING:
        (alone,) = webhooks(each)
        assert named(alone) <= named(together), each.name


def test_shipped_plugins_share_what_lets_no_change_of_a_spec_pass() -> None:
    (shared,) = joint.asked(SHARING)
    (only,) = shared.conditions

    assert {each.webhook for each in SHARING} == {joint.SPECS}
    # every way of every plugin is one of the alternatives, or an alternative demands less
    assert only.expression == (
        f"(({changes.SPEC_OR_ANNOTATIONS.expression})) || (({changes.SPEC.expression}))"
    )
    assert all({changes.SPEC, changes.SPEC_OR_ANNOTATIONS} & {*row.conditions} for row in SHARING)
    assert not shared.fail_open


def test_no_webhook_has_the_name_of_a_plugin() -> None:
    assert not {row.webhook for row in PLUGINS} & {row.name for row in PLUGINS}
