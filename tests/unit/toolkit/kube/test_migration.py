"""Which definitions have something to migrate, and what that takes."""

from typing import Any

import pytest

import crds
from crds import manifest
from toolkit.kube import migration


def definition(*stored: str, storage: str = "v1") -> Any:
    crd = manifest.definition(crds.GIT_REPOSITORY, release="v0")
    for each in crd["spec"]["versions"]:
        each["storage"] = each["name"] == storage
    return crd | {"status": {"storedVersions": list(stored)}}


@pytest.mark.parametrize(
    ("found", "outdated"),
    [
        (definition("v1"), ()),
        (definition("v1beta2", "v1"), ("v1beta2",)),
        (definition("v1beta1", "v1beta2"), ("v1beta1", "v1beta2")),
        (definition("v1beta2", "v1", storage="v1beta2"), ()),
        (definition(), ()),
        ({}, ()),
    ],
)
def test_versions_besides_the_newest_are_outdated_once_it_is_the_stored_one(
    found: Any, outdated: tuple[str, ...]
) -> None:
    assert migration.outdated(found, crds.GIT_REPOSITORY) == outdated


def test_only_kinds_with_several_versions_may_be_written() -> None:
    rules = migration.permissions(crds.KINDS)

    patched = {plural for rule in rules for plural in rule.resources if "patch" in rule.verbs}
    assert patched == {
        "customresourcedefinitions/status",
        *(kind.plural for kind in crds.KINDS if kind.older),
    }
    assert all(rule.names for rule in rules if "customresourcedefinitions" in rule.resources[0])
