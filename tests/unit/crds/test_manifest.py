"""A definition carries what the API server and the flux command look for."""

from typing import Any

import pytest

import crds
from crds import manifest


@pytest.fixture(params=crds.KINDS, ids=lambda kind: kind.kind)
def definition(request: pytest.FixtureRequest) -> dict[str, Any]:
    return manifest.definition(request.param, release="v9.9.9")


def test_one_version_is_served_and_stored(definition: dict[str, Any]) -> None:
    versions = {
        each["name"]: (each["served"], each["storage"]) for each in definition["spec"]["versions"]
    }

    assert versions == {
        "v1": (True, True),
        "v1beta2": (False, False),
        "v1beta1": (False, False),
    }


def test_an_older_version_says_what_to_use_instead(definition: dict[str, Any]) -> None:
    for old in definition["spec"]["versions"][1:]:
        assert old["deprecated"] is True
        assert "is deprecated, use" in old["deprecationWarning"]


def test_the_flux_command_recognises_the_installation(definition: dict[str, Any]) -> None:
    labels = definition["metadata"]["labels"]

    assert labels["app.kubernetes.io/part-of"] == "flux"
    assert labels["app.kubernetes.io/version"] == "v9.9.9"


def test_substitution_leaves_descriptions_alone(definition: dict[str, Any]) -> None:
    annotations = definition["metadata"]["annotations"]

    assert annotations["kustomize.toolkit.fluxcd.io/substitute"] == "disabled"


def test_every_version_has_a_status_subresource(definition: dict[str, Any]) -> None:
    assert all(each["subresources"] == {"status": {}} for each in definition["spec"]["versions"])
