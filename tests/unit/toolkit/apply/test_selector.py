"""Selecting objects as kustomize does."""

from typing import Any

import pytest

from toolkit import errors
from toolkit.apply.selector import Selector

OBJ = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "labels": {"tier": "front", "env": "prod"},
        "annotations": {"note": "x y"},
    },
}


@pytest.mark.parametrize(
    ("fields", "selected"),
    [
        ({}, True),
        ({"kind": "Deployment", "group": "apps", "version": "v1"}, True),
        ({"kind": "Deploy"}, False),
        ({"name": "web"}, False),
        ({"name": "web-.*"}, True),
        ({"name": "web-[0-9]+|db"}, True),
        ({"name": "eb-1"}, False),
        ({"name": "web.1"}, True),
        ({"namespace": "shop"}, True),
        ({"namespace": "sho"}, False),
        ({"label_selector": "tier=front"}, True),
        ({"label_selector": "tier==front, env in (prod, test)"}, True),
        ({"label_selector": "env notin (prod)"}, False),
        ({"label_selector": "missing notin (prod), !absent, tier"}, True),
        ({"label_selector": "tier!=front"}, False),
        ({"label_selector": "missing!=front"}, True),
        ({"label_selector": "!tier"}, False),
        ({"label_selector": "missing"}, False),
        ({"annotation_selector": "note"}, True),
        ({"label_selector": "a.b/c-d=e"}, False),
    ],
)
def test_selection(fields: dict[str, Any], selected: bool) -> None:  # noqa: FBT001 - a table
    assert Selector(**fields).matches(OBJ) is selected


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "("},
        {"name": "a." * 200},
        {"label_selector": "a=(b)"},
        {"label_selector": "!a=b"},
        {"label_selector": " " * 100_000},
    ],
)
def test_a_malformed_selector_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(errors.StalledError):
        Selector(**fields).matches(OBJ)


def test_a_pattern_that_would_take_long_to_compile_is_refused() -> None:
    with pytest.raises(errors.StalledError, match="too large"):
        Selector(name=r"(\pL{1,100}){1,5}").matches(OBJ)


def test_a_pattern_that_would_backtrack_for_ever_is_answered() -> None:
    obj = {**OBJ, "metadata": {"name": "a" * 60 + "!"}}

    assert not Selector(name="(a+)+").matches(obj)
