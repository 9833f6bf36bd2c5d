"""What is chosen at the command line, as a kustomization over the shipped manifests."""

import base64
import json
import re

import pytest
import yaml

from cli.errors import UsageError
from cli.installing import manifests
from cli.installing.manifests import Choice


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("penstock", {"newName": "penstock"}),
        ("reg.example:5000/penstock", {"newName": "reg.example:5000/penstock"}),
        (
            "reg.example:5000/a/penstock:v1",
            {"newName": "reg.example:5000/a/penstock", "newTag": "v1"},
        ),
        ("a/penstock@sha256:ab", {"newName": "a/penstock", "digest": "sha256:ab"}),
        ("a:v1@sha256:ab", {"newName": "a", "newTag": "v1", "digest": "sha256:ab"}),
    ],
)
def test_an_image_is_taken_apart(reference: str, expected: dict[str, str]) -> None:
    made = manifests.overlay(Choice(image=reference))

    assert made["images"] == [{"name": "penstock", **expected}]


@pytest.mark.parametrize("reference", [":v1", "@sha256:ab", "penstock@ab"])
def test_what_is_no_image_is_refused(reference: str) -> None:
    with pytest.raises(UsageError, match=r"--image: .* names no image"):
        manifests.overlay(Choice(image=reference))


def test_a_component_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"no component 'hat'; there are .*\bha\b"):
        manifests.overlay(Choice(components=("hat",)))


def test_every_component_can_be_chosen() -> None:
    folders = {each.name for each in (manifests.DEPLOY / "components").iterdir()}

    assert folders == {*manifests.COMPONENTS, manifests.INCLUDED}


def test_components_that_change_others_come_after_them() -> None:
    made = manifests.overlay(Choice(components=("by-namespace", "workload-identity", "sharding")))

    places = [each.rpartition("/")[2] for each in made["components"]]
    assert places.index("sharding") < places.index("workload-identity")
    assert places.index("workload-identity") < places.index("by-namespace")
    assert places[-2:] == ["labels", "definitions"]


def test_what_is_not_chosen_is_not_patched() -> None:
    assert "patches" not in manifests.overlay(Choice())
    patched = manifests.overlay(Choice(tolerations=("a", "b"), pull_secret="s"))["patches"]
    operations = yaml.safe_load(patched[0]["patch"])
    assert [each["path"].rpartition("/")[2] for each in operations] == [
        "tolerations",
        "imagePullSecrets",
    ]


def test_a_registry_keeps_the_name_of_the_image() -> None:
    made = manifests.overlay(Choice(registry="reg.example:5000/team/"))

    assert made["images"] == [{"name": "penstock", "newName": "reg.example:5000/team/penstock"}]


def test_network_policies_can_be_left_out() -> None:
    with_, without = (manifests.overlay(Choice(policies=each)) for each in (True, False))

    left = set(with_["components"]) - set(without["components"])
    assert left == {"../deploy/base/../components/network-policies"}


def test_controllers_alone_can_be_bound_to_their_namespace() -> None:
    (patch,) = manifests.overlay(Choice(all_namespaces=False))["patches"]

    name = re.compile(patch["target"]["name"])
    (operation,) = yaml.safe_load(patch["patch"])
    assert operation["value"] == "--watch-all-namespaces=false"
    assert name.fullmatch("source-controller-shard1")
    assert not name.fullmatch("webhook")
    assert not name.fullmatch("penstock-apiserver")


async def test_services_are_named_in_the_domain_of_the_cluster() -> None:
    objects = await manifests.build(Choice(domain="corp.example", components=("cert-manager",)))

    text = yaml.safe_dump_all(
        obj for obj in objects if obj["kind"] in ("Deployment", "Certificate")
    )
    assert ".svc.corp.example" in text
    assert "cluster.local" not in text


def test_the_login_for_the_image_is_in_no_manifest() -> None:
    choice = Choice(pull_secret="pull", registry="reg.example/team", creds=("ada", "s3cret"))

    (secret,) = manifests.secrets(choice)

    config = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
    assert config["auths"]["reg.example"]["username"] == "ada"
    assert secret["metadata"]["labels"] == {"app.kubernetes.io/instance": "penstock-system"}
    assert "s3cret" not in repr((choice, manifests.overlay(choice)))
    assert manifests.secrets(Choice()) == ()
