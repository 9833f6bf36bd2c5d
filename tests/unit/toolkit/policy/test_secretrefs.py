"""No field that names a Secret, or anything else, is forgotten."""

import re
from collections.abc import Iterator

import pytest

import crds
from crds import schema
from toolkit.objects import Json
from toolkit.policy import references, secretrefs, tenancy
from toolkit.policy.secretrefs import SECRETS, UNJUDGED, Named

_SUSPECT = re.compile("secret|configmap|serviceaccount|credential|ref$", re.IGNORECASE)

Place = tuple[tuple[str, str], str]


def naming(node: Json, path: str = "") -> Iterator[str]:
    """Yield the path of every field that names something, or whose own name suggests it."""
    for name, inner in node.get("properties", {}).items():
        element = inner.get("items")
        held = element or inner
        here = f"{path}.{name}".lstrip(".") + ("[]" if element else "")
        if "name" in held.get("properties", {}) or _SUSPECT.search(name):
            yield here
        yield from naming(held, here)


def fields_of_all_versions() -> set[Place]:
    # what belongs to the cluster is its administrators', who may name any Secret
    return {
        ((kind.group, kind.kind), path)
        for kind in crds.KINDS
        if kind.namespaced
        for model in (kind.model, *(old.model for old in kind.older))
        for path in naming(schema.annotated(model)["properties"].get("spec", {}), "spec")
    }


def places(
    rows: tuple[references.Field | secretrefs.Field | secretrefs.Unjudged, ...],
) -> set[Place]:
    return {(row.holder, row.path) for row in rows}


def test_every_field_that_names_something_is_in_one_table() -> None:
    tables = [places(SECRETS), places(UNJUDGED), places(references.REFERENCES)]
    tables.append(set(tenancy.ACCOUNTS))

    assert set().union(*tables) == fields_of_all_versions()
    assert sum(map(len, tables)) == len(fields_of_all_versions())


def test_every_unjudged_field_says_why() -> None:
    assert all(row.why for row in UNJUDGED)


def test_nothing_that_is_called_a_secret_is_unjudged() -> None:
    assert not [row.path for row in UNJUDGED if re.search("secret", row.path, re.IGNORECASE)]


@pytest.mark.parametrize("version", ["v2", "v2beta2", "v2beta1"])
def test_secrets_are_found_in_every_version(version: str) -> None:
    source = {"kind": "HelmRepository", "name": "charts", "namespace": "platform"}
    obj: Json = {
        "apiVersion": f"helm.toolkit.fluxcd.io/{version}",
        "kind": "HelmRelease",
        "spec": {
            "chart": {"spec": {"sourceRef": source, "verify": {"secretRef": {"name": "keys"}}}},
            "valuesFrom": [{"kind": "ConfigMap", "name": "c"}, {"kind": "Secret", "name": "s"}],
        },
    }

    assert list(secretrefs.named(obj, "team")) == [
        Named(path="spec.valuesFrom[1]", namespace="team", name="s", listed="spec.valuesFrom"),
        Named(path="spec.chart.spec.verify.secretRef", namespace="platform", name="keys"),
    ]
