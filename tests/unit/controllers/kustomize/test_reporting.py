"""What a Kustomization says of what it has done."""

import pytest

from controllers.kustomize import reporting
from controllers.kustomize.clusters import LOST
from toolkit.objects import GroupVersionKind, ObjectRef

REF = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), "shop", "conf")


@pytest.mark.parametrize(
    ("why", "line", "said"),
    [
        (LOST, "ConfigMap/shop/conf created", "it was deleted"),
        (LOST, "ConfigMap/shop/conf configured", "it had lost the labels of its owner"),
        (
            "it was changed by kubectl",
            "ConfigMap/shop/conf configured",
            "it was changed by kubectl",
        ),
    ],
)
def test_only_what_had_to_be_created_was_deleted(why: str, line: str, said: str) -> None:
    assert reporting.correction(REF, why, [line]) == said
