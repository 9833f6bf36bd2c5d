"""What is chosen at the command line, as a kustomization over the shipped manifests."""

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
