"""Differences are told by field, and Secrets stay secret."""

from typing import Any

import pytest

from toolkit.apply import comparison


def deployment(**container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "web", **container}]}}},
    }


def lines(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [str(difference) for difference in comparison.compare(old, new)]


def test_changed_added_and_removed_fields_have_their_signs() -> None:
    old = {"metadata": {}, "spec": {"replicas": 1, "paused": True}}
    new = {"metadata": {}, "spec": {"replicas": 2, "minReadySeconds": 5}}

    assert lines(old, new) == [
        "~ spec.replicas: 1 → 2",
        "- spec.paused: true",
        "+ spec.minReadySeconds: 5",
    ]


def test_items_of_a_list_are_found_by_their_name() -> None:
    assert lines(deployment(image="web:1"), deployment(image="web:2")) == [
        '~ spec.template.spec.containers[name=web].image: "web:1" → "web:2"'
    ]


def test_reordered_named_items_are_no_difference() -> None:
    one, two = {"name": "a", "value": "1"}, {"name": "b", "value": "2"}

    assert lines(deployment(env=[one, two]), deployment(env=[two, one])) == []


def test_plain_lists_are_compared_as_a_whole() -> None:
    assert lines(deployment(args=["a"]), deployment(args=["a", "b"])) == [
        '~ spec.template.spec.containers[name=web].args: ["a"] → ["a", "b"]'
    ]


def test_ports_with_one_number_and_two_protocols_are_not_told_apart_by_number() -> None:
    tcp, udp = {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}
    old = {"metadata": {}, "spec": {"ports": [tcp, udp]}}
    new = {"metadata": {}, "spec": {"ports": [tcp]}}

    (difference,) = comparison.compare(old, new)

    assert (difference.op, difference.path) == ("~", "spec.ports")


def test_what_the_server_writes_is_no_difference() -> None:
    live = deployment()
    live["metadata"] |= {"uid": "1", "resourceVersion": "2", "generation": 3, "managedFields": []}
    live["status"] = {"replicas": 1}

    assert lines(live, deployment()) == []


def test_keys_with_dots_are_quoted() -> None:
    old = {"metadata": {"annotations": {}}}
    new = {"metadata": {"annotations": {"example.com/team": "a"}}}

    assert lines(old, new) == ['+ metadata.annotations."example.com/team": "a"']


def test_values_of_a_secret_are_never_shown() -> None:
    old = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "b2xk", "c": "eA=="}}
    new = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "bmV3", "d": "eQ=="}}

    shown = lines(old, new)

    assert shown == ["~ data.a: *** (before) → *** (after)", "- data.c: ***", "+ data.d: ***"]


def test_whole_data_of_a_secret_is_masked_too() -> None:
    old = {"apiVersion": "v1", "kind": "Secret", "metadata": {}}
    new = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "bmV3"}}

    assert lines(old, new) == ["+ data: ***"]


def test_long_values_are_cut() -> None:
    (line,) = lines({"metadata": {}, "data": {}}, {"metadata": {}, "data": {"text": "x" * 5000}})

    assert len(line) < 300
    assert "(5002 characters)" in line


def test_the_copy_of_a_secret_that_kubectl_keeps_is_never_shown() -> None:
    copy = {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"a":"b2xk"}}'}
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {}}
    with_copy = {**secret, "metadata": {"annotations": {**copy, "kept": "1"}}}

    shown = [
        *lines(with_copy, {**secret, "metadata": {"annotations": {"kept": "1"}}}),
        *lines(with_copy, {**secret, "metadata": {}}),
        *lines({**secret, "metadata": {}}, with_copy),
    ]

    assert len(shown) == 3
    assert "b2xk" not in str(shown)


def test_a_new_secret_shows_no_value() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"password": "aHVudA"}}

    assert "aHVudA" not in str(lines({}, secret))


def test_all_values_can_be_masked() -> None:
    found = comparison.compare({"data": {"a": "1", "b": "2"}}, {"data": {"a": "3", "c": "4"}})

    assert [str(one) for one in comparison.masked(found)] == [
        "~ data.a: *** (before) → *** (after)",
        "- data.b: ***",
        "+ data.c: ***",
    ]


@pytest.mark.parametrize(
    "held",
    ["hunter2" * 60, "x" * 195 + " hunter2hunter2 and more", "x" * 300 + "hunter2hunter2"],
    ids=["longer than what is shown", "across the cut", "after the cut"],
)
def test_long_values_are_judged_before_they_are_cut(held: str) -> None:
    old = {"data": {"gone": held, "v": "1"}}
    new = {"data": {"v": "2"}}

    shown = comparison.compare(old, new, secret=lambda text: "hunter2hunter2" in text)

    assert [str(one) for one in shown] == [
        "- data.gone: ***",
        "~ data.v: *** (before) → *** (after)",
    ]


def test_long_values_are_shown_cut() -> None:
    (shown,) = comparison.compare({"data": {}}, {"data": {"long": "x" * 500}})

    assert len(shown.new) < 250
    assert shown.new.endswith("… (502 characters)")
