"""Taking over objects that kubectl or others made."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolkit.apply import fields
from toolkit.apply.ownership import LAST_APPLIED
from toolkit.objects import Json, dig, gvk_of

Kubectl = Callable[..., str]


async def _live(api: Any, obj: Json) -> Json:
    meta = obj["metadata"]
    found: Json = await api.get(gvk_of(obj), meta["name"], meta["namespace"])
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ["apply"],
        ["create"],
        ["create", "--save-config"],
        ["apply", "--server-side"],
        ["create", "--field-manager=kustomize-controller"],
    ],
    ids=" ".join,
)
async def test_a_field_that_left_the_manifest_leaves_the_object(
    apply: Any, make: Any, api: Any, cluster: Any, arguments: list[str]
) -> None:
    before = make.config_map(kept="1", dropped="2")
    cluster(*arguments, "-f", "-", stdin=json.dumps(before))

    changes = await apply(make.config_map(kept="1"))

    live = await _live(api, before)
    assert live["data"] == {"kept": "1"}
    assert LAST_APPLIED not in dig(live, "metadata", "annotations", default={})
    assert {entry["manager"] for entry in fields.entries(live)} == {"kustomize-controller"}
    assert [entry.action for entry in changes.entries] == ["configured"]
    assert changes.entries[0].entry_digest == fields.entry_digest(live, "kustomize-controller")


async def test_a_taken_object_is_not_taken_again(
    apply: Any, make: Any, cluster: Any, wire: Any
) -> None:
    cluster("apply", "-f", "-", stdin=json.dumps(make.config_map()))
    await apply(make.config_map())
    taking = list(wire.sent)
    wire.sent.clear()

    again = await apply(make.config_map())

    assert taking == ["PATCH dry", "GET", "PATCH", "PATCH"]
    assert wire.sent == ["PATCH dry", "PATCH"]
    assert [entry.action for entry in again.entries] == ["unchanged"]


async def test_merge_leaves_the_fields_of_kubectl(
    apply: Any, make: Any, api: Any, cluster: Any
) -> None:
    before = make.config_map(ours="1", theirs="2")
    cluster("apply", "-f", "-", stdin=json.dumps(before))

    await apply(make.marked(make.config_map(ours="3"), ssa="Merge"))

    assert (await _live(api, before))["data"] == {"ours": "3", "theirs": "2"}


async def test_what_was_edited_by_hand_is_undone(
    apply: Any, make: Any, api: Any, cluster: Any
) -> None:
    manifest = make.deployment()
    await apply(manifest)
    cluster("set", "env", "deployment/web", "ADDED=1", "A=changed")
    cluster("scale", "deployment/web", "--replicas=3")

    await apply(manifest)

    live = await _live(api, manifest)
    container = live["spec"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert live["spec"]["replicas"] == 1


async def test_other_controllers_keep_their_fields(
    apply: Any, make: Any, api: Any, cluster: Any
) -> None:
    manifest = make.config_map(ours="1")
    await apply(manifest)
    body = '{"data":{"theirs":"2"}}'
    cluster(*("patch", "configmap", "conf", "--field-manager=operator", "-p", body))

    await apply(manifest)

    assert (await _live(api, manifest))["data"] == {"ours": "1", "theirs": "2"}


async def test_named_managers_are_taken_over(
    apply: Any, make: Any, api: Any, cluster: Any, options: Any
) -> None:
    manifest = make.config_map(ours="1")
    await apply(manifest)
    body = '{"data":{"theirs":"2"}}'
    cluster(*("patch", "configmap", "conf", "--field-manager=operator", "-p", body))

    await apply(manifest, options=replace(options, overridden=frozenset({"operator"})))

    assert (await _live(api, manifest))["data"] == {"ours": "1"}


async def test_an_object_whose_managed_fields_were_wiped_is_ours_again(
    apply: Any, make: Any, api: Any
) -> None:
    manifest = make.config_map(kept="1", dropped="2")
    await apply(manifest)
    await api.patch(
        *(gvk_of(manifest), "conf", make.namespace),
        [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
        strategy="json",
    )

    await apply(make.config_map(kept="1"))

    live = await _live(api, manifest)
    assert live["data"] == {"kept": "1"}
    assert {entry["manager"] for entry in fields.entries(live)} == {"kustomize-controller"}


async def test_the_keys_of_a_secret_given_in_plain_text_go_when_they_are_removed(
    apply: Any, make: Any, api: Any
) -> None:
    await apply(make.secret(kept="1", dropped="2"))

    await apply(make.secret(kept="1"))

    assert (await _live(api, make.secret()))["data"] == {"kept": "MQ=="}
