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


def _state(obj: Json) -> tuple[Any, ...]:
    """Return what nobody but its applier changes."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    # the scheduler chooses a node meanwhile
    return metadata["uid"], {key: value for key, value in spec.items() if key != "nodeName"}


async def _as_flux(api: Any, obj: Json) -> Json:
    """Apply an object as kustomize-controller does, and return it as it is then."""
    found: Json = (await api.apply(obj, manager="kustomize-controller")).object
    return found


_CONTAINER: Json = {"name": "a", "image": "registry.example/a:1"}
_POD: Json = {"containers": [_CONTAINER]}
_STRICT: Json = {"containers": [{**_CONTAINER, "resources": {}}]}
_LABELS: Json = {"app": "a"}
_SELECTOR: Json = {"matchLabels": _LABELS}
_LABELLED: Json = {"metadata": {"labels": _LABELS}}
_ONCE: Json = {**_POD, "restartPolicy": "Never"}
_STRICT_ONCE: Json = {**_STRICT, "restartPolicy": "Never"}
_PORT: Json = {"port": 80}

TYPED: list[tuple[str, str, Json, Json]] = [
    # what Git has, and what Flux makes of it
    (
        *("batch/v1", "Job"),
        {"template": {"spec": _ONCE}},
        {"template": {"metadata": {}, "spec": _STRICT_ONCE}},
    ),
    (
        *("batch/v1", "CronJob"),
        {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": _ONCE}}}},
        {
            "schedule": "0 0 1 1 *",
            "jobTemplate": {
                "metadata": {},
                "spec": {"template": {"metadata": {}, "spec": _STRICT_ONCE}},
            },
        },
    ),
    ("v1", "Pod", _POD, _STRICT),
    (
        *("apps/v1", "Deployment"),
        {"selector": _SELECTOR, "template": {**_LABELLED, "spec": _POD}},
        {"selector": _SELECTOR, "strategy": {}, "template": {**_LABELLED, "spec": _STRICT}},
    ),
    (
        *("apps/v1", "StatefulSet"),
        {"selector": _SELECTOR, "serviceName": "a", "template": {**_LABELLED, "spec": _POD}},
        {
            "selector": _SELECTOR,
            "serviceName": "a",
            "updateStrategy": {},
            "template": {**_LABELLED, "spec": _STRICT},
        },
    ),
    (
        *("apps/v1", "DaemonSet"),
        {"selector": _SELECTOR, "template": {**_LABELLED, "spec": _POD}},
        {"selector": _SELECTOR, "updateStrategy": {}, "template": {**_LABELLED, "spec": _STRICT}},
    ),
    (
        *("v1", "PersistentVolumeClaim"),
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    ),
    (
        *("v1", "Service"),
        {"ports": [_PORT]},
        {"ports": [{**_PORT, "protocol": "TCP", "targetPort": 80}]},
    ),
    ("policy/v1", "PodDisruptionBudget", {"selector": _SELECTOR}, {"selector": _SELECTOR}),
    ("networking.k8s.io/v1", "NetworkPolicy", {}, {"podSelector": {}}),
]


@pytest.mark.parametrize("row", TYPED, ids=[row[1] for row in TYPED])
async def test_object_of_flux_is_taken_over_as_it_is(
    apply: Any, make: Any, api: Any, row: tuple[str, str, Json, Json]
) -> None:
    api_version, kind, written, sent = row
    limits = {"default": {"cpu": "1"}, "defaultRequest": {"cpu": "1m"}, "type": "Container"}
    await api.apply(make("v1", "LimitRange", "limits", spec={"limits": [limits]}), manager="test")
    manifest = make(api_version, kind, "taken", spec=written)
    before = await _as_flux(api, make(api_version, kind, "taken", spec=sent))

    await apply(manifest)
    once = await _live(api, manifest)
    await apply(manifest)

    assert _state(once) == _state(before)
    assert _state(await _live(api, manifest)) == _state(before)


async def test_field_that_left_the_manifest_leaves_an_object_of_flux(
    apply: Any, make: Any, api: Any
) -> None:
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": _ONCE}}}}
    before = {**spec, "suspend": True}
    await _as_flux(api, make("batch/v1", "CronJob", "taken", spec=before))

    await apply(make("batch/v1", "CronJob", "taken", spec=spec))

    live = await _live(api, make("batch/v1", "CronJob", "taken"))
    assert live["spec"]["suspend"] is False
