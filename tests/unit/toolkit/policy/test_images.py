"""No kind, container or volume that runs an image may be missed."""

from typing import Any

import pytest

from toolkit.policy import images
from toolkit.policy.images import PullAccess

Json = dict[str, Any]


def pod_spec() -> Json:
    return {
        "containers": [{"name": "app", "image": "app"}, {"name": "side", "image": "side"}],
        "initContainers": [{"name": "setup", "image": "setup"}],
        "ephemeralContainers": [{"name": "debug", "image": "debug"}],
        "volumes": [
            {"name": "config", "configMap": {"name": "config"}},
            {"name": "model", "image": {"reference": "model", "pullPolicy": "Always"}},
        ],
    }


KINDS = {
    "Pod": ("v1", ("spec",)),
    "PodTemplate": ("v1", ("template", "spec")),
    "ReplicationController": ("v1", ("spec", "template", "spec")),
    "Deployment": ("apps/v1", ("spec", "template", "spec")),
    "ReplicaSet": ("apps/v1", ("spec", "template", "spec")),
    "StatefulSet": ("apps/v1", ("spec", "template", "spec")),
    "DaemonSet": ("apps/v1", ("spec", "template", "spec")),
    "Job": ("batch/v1", ("spec", "template", "spec")),
    "CronJob": ("batch/v1", ("spec", "jobTemplate", "spec", "template", "spec")),
}


def holding(kind: str, spec: Any) -> Json:
    version, path = KINDS[kind]
    body: Any = spec
    for step in reversed(path):
        body = {step: body}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **body}


@pytest.mark.parametrize("kind", KINDS)
def test_every_image_of_every_kind_is_found(kind: str) -> None:
    found = images.images(holding(kind, pod_spec()))

    assert [image.text for image in found] == ["app", "side", "setup", "debug", "model"]
    assert [image.owner for image in found] == [
        "container 'app'",
        "container 'side'",
        "init container 'setup'",
        "ephemeral container 'debug'",
        "volume 'model'",
    ]


def test_table_holds_the_kinds_that_are_tested() -> None:
    assert {kind for _, kind in images.POD_SPECS} == set(KINDS)


def test_old_version_of_a_kind_is_no_way_around() -> None:
    old = holding("Deployment", pod_spec()) | {"apiVersion": "apps/v1beta1"}

    assert len(images.images(old)) == 5


def test_field_is_named_as_the_api_server_names_it() -> None:
    found = images.images(holding("CronJob", pod_spec()))

    template = "spec.jobTemplate.spec.template.spec"
    assert found[0].field == f"{template}.containers[0].image"
    assert found[-1].field == f"{template}.volumes[1].image.reference"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": None},
        {"containers": ["app"]},
        {"containers": [{"image": 7}]},
        {"containers": [{"image": "  "}]},
        {"containers": {"image": "app"}},
        {"volumes": [{"image": "app"}]},
    ],
)
def test_what_is_not_shaped_as_it_must_be_has_no_images(spec: Json) -> None:
    assert images.images(holding("Pod", spec)) == ()


@pytest.mark.parametrize("spec", [None, "x", []])
def test_object_without_a_spec_has_no_images(spec: Any) -> None:
    assert images.images(holding("Pod", spec)) == ()
    assert images.pull_access(holding("Pod", spec)) == PullAccess()


def test_container_without_a_name_is_called_by_its_position() -> None:
    (found,) = images.images(holding("Pod", {"containers": [{"image": "app"}]}))

    assert found.owner == "container 0"


@pytest.mark.parametrize("kind", KINDS)
def test_other_images_are_written_where_they_stand_and_nothing_else_changes(kind: str) -> None:
    before = holding(kind, pod_spec())
    texts = {image.path: f"{image.text}-pinned" for image in images.images(before)}

    after = images.with_images(before, texts)

    assert before == holding(kind, pod_spec())
    assert [image.text for image in images.images(after)] == [
        *("app-pinned", "side-pinned", "setup-pinned", "debug-pinned", "model-pinned"),
    ]
    back = {image.path: image.text for image in images.images(before)}
    assert images.with_images(after, back) == before


def test_pull_secrets_and_account_are_read_from_the_template() -> None:
    spec = {"imagePullSecrets": [{"name": "a"}, {}, {"name": "b"}], "serviceAccountName": "runner"}

    access = images.pull_access(holding("CronJob", spec))

    assert access == PullAccess(secrets=("a", "b"), service_account="runner")


def test_older_name_of_the_account_counts() -> None:
    access = images.pull_access(holding("Pod", {"serviceAccount": "runner"}))

    assert access.service_account == "runner"
