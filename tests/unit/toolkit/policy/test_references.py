"""Who may refer to whom."""

import pytest

from toolkit.errors import AccessDeniedError
from toolkit.objects import GroupVersionKind, ObjectRef
from toolkit.policy.references import require_reference

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
HOLDER = ObjectRef(KUSTOMIZATION, "team", "app")


def test_own_namespace_is_always_allowed() -> None:
    require_reference(HOLDER, ObjectRef(GIT, "team", "app"), cross_namespace=False)


def test_other_namespace_is_allowed_only_where_references_may_cross() -> None:
    target = ObjectRef(GIT, "other", "app")

    require_reference(HOLDER, target, cross_namespace=True)
    with pytest.raises(AccessDeniedError, match="GitRepository/other/app"):
        require_reference(HOLDER, target, cross_namespace=False)
