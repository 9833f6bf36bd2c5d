"""Fields that are left to others: decided from the live object alone."""

import copy
from typing import Any

import pytest

from toolkit import errors
from toolkit.apply import ignore
from toolkit.apply.ignore import IgnoreRule
from toolkit.apply.selector import Selector
from toolkit.objects import Json

US = "kustomize-controller"


def _obj(replicas: int | None = 1, images: dict[str, str] | None = None, **metadata: Any) -> Json:
    containers = [{"name": n, "image": i} for n, i in (images or {"web": "a"}).items()]
    spec: Json = {"containers": containers}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _owned_by(live: Json, **trees: Json) -> Json:
    entries = [
        {"manager": name, "operation": "Apply" if name == "us" else "Update", "fieldsV1": tree}
        for name, tree in trees.items()
    ]
    for entry in entries:
        entry["manager"] = US if entry["manager"] == "us" else entry["manager"]
    return {**live, "metadata": {**live["metadata"], "managedFields": entries}}


def _reduced(payload: Json, live: Json, *paths: str) -> Json:
    ignored = ignore.pointers(payload, [IgnoreRule(paths=paths)])
    return ignore.reduce(payload, live, manager=US, ignored=ignored)


REPLICAS = {"f:spec": {"f:replicas": {}}}


def test_a_field_of_another_manager_is_not_sent() -> None:
    live = _owned_by(_obj(5), us=REPLICAS, scaler=REPLICAS)

    assert _reduced(_obj(1), live, "/spec/replicas") == _obj(None)


def test_a_field_that_only_we_own_is_sent_as_it_is_live() -> None:
    live = _owned_by(_obj(5), us=REPLICAS)

    assert _reduced(_obj(1), live, "/spec/replicas") == _obj(5)


def test_a_field_that_was_removed_is_not_brought_back() -> None:
    live = _owned_by(_obj(None), us={})

    assert _reduced(_obj(1), live, "/spec/replicas") == _obj(None)


def test_an_item_is_found_by_its_key_and_not_by_its_place() -> None:
    tree = {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}
    live = _owned_by(_obj(1, {"side": "s", "web": "live"}), us=tree)

    reduced = _reduced(_obj(1, {"web": "manifest"}), live, "/spec/containers/0/image")

    assert reduced["spec"]["containers"] == [{"name": "web", "image": "live"}]


def test_whole_items_are_left_out_from_the_back() -> None:
    keys = {f'k:{{"name":"{name}"}}': {".": {}} for name in ("a", "b")}
    tree = {"f:spec": {"f:containers": keys}}
    live = _owned_by(_obj(1, {"a": "1", "b": "2"}), injector=tree)
    payload = _obj(1, {"a": "1", "b": "2", "c": "3"})

    reduced = _reduced(payload, live, "/spec/containers/0", "/spec/containers/1")

    assert reduced["spec"]["containers"] == [{"name": "c", "image": "3"}]


def test_the_payload_is_not_changed_in_place() -> None:
    payload = _obj(1)
    before = copy.deepcopy(payload)

    _reduced(payload, _owned_by(_obj(5), scaler=REPLICAS), "/spec/replicas")

    assert payload == before


@pytest.mark.parametrize("path", ["/spec/nothing", "/spec/containers/9/image", "/spec/replicas/x"])
def test_a_path_that_leads_nowhere_changes_nothing(path: str) -> None:
    assert _reduced(_obj(1), _owned_by(_obj(5)), path) == _obj(1)


@pytest.mark.parametrize(
    "path", ["", "spec/replicas", "/kind", "/metadata", "/metadata/name", "/apiVersion"]
)
def test_what_identifies_the_object_cannot_be_ignored(path: str) -> None:
    with pytest.raises(errors.StalledError, match="cannot be ignored"):
        ignore.pointers(_obj(), [IgnoreRule(paths=(path,))])


def test_escaped_names_are_read() -> None:
    rule = IgnoreRule(paths=("/metadata/annotations/a~1b~0c",))

    assert ignore.pointers(_obj(), [rule]) == (("metadata", "annotations", "a/b~c"),)


def test_a_rule_for_other_objects_does_not_count() -> None:
    rule = IgnoreRule(paths=("/spec/replicas",), target=Selector(kind="StatefulSet"))

    assert ignore.pointers(_obj(), [rule]) == ()


def test_more_rules_than_are_looked_at_are_refused() -> None:
    few = [IgnoreRule(paths=("/spec/replicas",) * 10)] * 100

    ignore.require_few(few)
    with pytest.raises(errors.StalledError, match="101 rules of fields to ignore, more than 100"):
        ignore.require_few([*few, IgnoreRule(paths=())])
    with pytest.raises(errors.StalledError, match="1001 paths of fields to ignore, more than 1000"):
        ignore.require_few([*few[1:], IgnoreRule(paths=("/spec/replicas",) * 11)])


def test_patterns_that_take_half_a_second_for_each_object_are_refused() -> None:
    usual = IgnoreRule(paths=("/data",), target=Selector(name="(web|api|db)-[a-z0-9]+"))
    slow = IgnoreRule(paths=("/data",), target=Selector(name="(a?){500}"))

    ignore.require_few([usual] * 100)
    with pytest.raises(errors.StalledError, match="more than 8192 instructions"):
        ignore.require_few([slow] * 100)


def test_a_name_that_is_no_pattern_has_no_instructions() -> None:
    assert Selector(kind="ConfigMap", name="web-1").size == 0
    assert Selector(name="(").size == 0
    assert Selector(name="web.*", namespace="team-.*").size > Selector(name="web.*").size > 0
