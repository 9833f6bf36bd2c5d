"""The configurations are narrow, fail closed, and leave alone what a cluster lives on."""

from typing import Any

import pytest
import yaml

from crds import KINDS
from toolkit.kube import rbac
from toolkit.objects import Json
from webhooks import configuration
from webhooks.configuration import Target
from webhooks.plugin import INSTALLED, Answer, Condition, Row, Rule
from webhooks.plugins import PLUGINS
from webhooks.request import Request
from webhooks.services import Services

TARGET = Target(namespace="penstock-system")
SOURCES = Rule(groups=("source.toolkit.fluxcd.io",), resources=("*", "gitrepositories/status"))
SECRETS = Rule(groups=("",), versions=("v1",), resources=("secrets",), operations=("CREATE",))


class Silent:
    """Is never asked."""

    async def review(self, request: Request) -> Answer:
        raise AssertionError(request)


def make(_: Services) -> Silent:
    return Silent()


def row(*rules: Rule, **more: Any) -> Row:
    return Row(name="test", rules=rules, make=make, **more)


def webhook(*rules: Rule, **more: Any) -> Json:
    (found,) = configuration.configurations([row(*rules, **more)], TARGET)
    (only,) = found["webhooks"]
    return dict(only)


def exempt(body: Json) -> list[str]:
    rows = body["namespaceSelector"].get("matchExpressions", [])
    return [value for each in rows for value in each["values"] if each["operator"] == "NotIn"]


def conditions(body: Json) -> list[str]:
    return [each["name"] for each in body["matchConditions"]]


def test_rules_for_our_kinds_name_the_stored_version_of_each() -> None:
    rules = webhook(SOURCES)["rules"]

    wanted = {k.plural for k in KINDS if k.group == "source.toolkit.fluxcd.io"}
    assert {each["apiVersions"][0] for each in rules} == {"v1"}
    assert {r for each in rules for r in each["resources"]} == wanted | {"gitrepositories/status"}


def test_our_kinds_are_reviewed_in_every_namespace_and_others_not_in_the_clusters() -> None:
    assert exempt(webhook(SOURCES)) == []
    assert exempt(webhook(SECRETS)) == ["kube-node-lease", "kube-system", "penstock-system"]
    assert exempt(webhook(SECRETS, everywhere=True)) == []


def test_namespaces_that_are_named_are_left_alone_but_for_our_kinds_and_labels() -> None:
    target = Target(namespace="penstock-system", exempt=("calico-system",))

    def found(*rules: Rule, **more: Any) -> list[str]:
        (body,) = configuration.configurations([row(*rules, **more)], target)
        return exempt(body["webhooks"][0])

    namespaces = Rule(groups=("",), resources=("namespaces",), scope="Cluster")
    assert "calico-system" in found(SECRETS)
    assert "calico-system" not in found(namespaces)
    assert found(SOURCES) == found(SECRETS, everywhere=True) == []


@pytest.mark.parametrize("name", ["", "*", "Calico", "a.b", "-a", "a" * 64])
def test_what_is_no_name_of_a_namespace_is_not_exempted(name: str) -> None:
    with pytest.raises(ValueError, match="webhook-exempt-namespaces"):
        Target(namespace="penstock-system", exempt=(name,))


def test_a_selector_of_the_plugin_is_kept_beside_the_exemption() -> None:
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}

    found = webhook(SECRETS, namespace_selector=selector)["namespaceSelector"]

    assert found["matchLabels"] == {"a": "b"}
    assert [each["key"] for each in found["matchExpressions"]] == [
        "c",
        "kubernetes.io/metadata.name",
    ]
    assert selector["matchExpressions"] == [{"key": "c", "operator": "Exists"}]


def test_it_fails_closed_without_side_effects() -> None:
    found = webhook(SECRETS)

    assert found["failurePolicy"] == "Fail"
    assert found["sideEffects"] == "None"
    assert found["matchPolicy"] == "Equivalent"
    assert webhook(SECRETS, fail_open=True)["failurePolicy"] == "Ignore"


def test_conditions_are_those_that_the_rules_need() -> None:
    anything = Rule(groups=("*",), resources=("*",), operations=("CREATE", "UPDATE", "DELETE"))

    assert conditions(webhook(SECRETS)) == []
    assert conditions(webhook(SOURCES)) == ["not-a-removal"]
    assert conditions(webhook(SOURCES, to_the_end=True)) == []
    assert conditions(webhook(anything, conditions=(Condition("mine", "true"),))) == [
        "not-vital",
        "not-collected",
        "not-a-removal",
        "mine",
    ]


def test_our_own_accounts_are_those_of_the_namespace_that_we_are_in() -> None:
    target = Target(namespace="flux-system")

    text = yaml.safe_dump_all(configuration.configurations(PLUGINS, target))

    assert "system:serviceaccount:flux-system:source-controller" in text
    assert f"serviceaccount:{rbac.NAMESPACE}" not in text
    assert INSTALLED not in text


def test_mutating_and_validating_plugins_go_to_their_own_configuration() -> None:
    rows = [row(SECRETS, mutating=True, reinvocation=True), row(SECRETS)]

    found = configuration.configurations(rows, TARGET, bundle="Y2E=")

    assert [each["kind"] for each in found] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]
    assert found[0]["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"
    assert "reinvocationPolicy" not in found[1]["webhooks"][0]
    for each in found:
        client = each["webhooks"][0]["clientConfig"]
        assert client["caBundle"] == "Y2E="
        assert client["service"]["path"] == "/admit/test"


def test_without_a_service_the_url_is_asked() -> None:
    target = Target(namespace="n", url="https://127.0.0.1:9443")

    assert target.client_config("/convert") == {"url": "https://127.0.0.1:9443/convert"}
    assert "127.0.0.1" in target.hosts
    assert "127.0.0.1" not in TARGET.hosts


def rules() -> list[Json]:
    text = configuration.render(PLUGINS)["rbac.yaml"]
    return [rule for obj in yaml.safe_load_all(text) for rule in obj.get("rules", [])]


def test_registrations_may_be_written_under_our_name_only() -> None:
    for rule in rules():
        if {"create", "patch", "delete"} & set(rule["verbs"]) and {
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "apiregistration.k8s.io",
        } & set(rule["apiGroups"]):
            assert rule["resourceNames"], rule


def test_permissions_of_plugins_are_granted() -> None:
    mine = rbac.Rule(groups=("example.com",), resources=("things",), verbs=("get",))

    assert mine in configuration.permissions([row(SECRETS, permissions=(mine,))])


def test_secrets_of_the_cluster_are_listed_by_nobody_whom_no_administrator_told_to() -> None:
    def listing(text: str) -> list[Json]:
        roles = [obj for obj in yaml.safe_load_all(text) if obj["kind"] == "ClusterRole"]
        rules = [rule for obj in roles for rule in obj["rules"]]
        return [r for r in rules if "secrets" in r["resources"] and set(r["verbs"]) - {"get"}]

    assert listing(configuration.render(PLUGINS)["rbac.yaml"]) == []
    assert listing(configuration.render_added(PLUGINS))


def test_names_of_plugins_are_unique_and_short_of_the_limits() -> None:
    names = [each.name for each in PLUGINS]

    assert len(set(names)) == len(names)
    for each in PLUGINS:
        assert 1 <= each.timeout <= 30
        assert len(each.conditions) + 3 <= 64
