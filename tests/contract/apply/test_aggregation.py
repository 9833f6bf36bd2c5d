"""A ClusterRole whose rules the control plane aggregates keeps them through every apply."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.tools.waiting import until
from toolkit.apply import diff, ownership
from toolkit.objects import GroupVersionKind, Json

CLUSTER_ROLE = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]


def _role(name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> Json:
    metadata = {"name": name, "labels": labels or {}}
    gvk = CLUSTER_ROLE
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **fields}


@pytest.fixture
async def part(api: Any, namespace: str) -> AsyncIterator[Json]:
    """Make a role that is aggregated into those that select the label of the namespace."""
    labels = {"tests.penstock.dev/aggregate": namespace}
    name = f"{namespace}-part"
    yield await api.create(_role(name, labels=labels, rules=RULES))
    await api.delete(CLUSTER_ROLE, name)


@pytest.mark.parametrize("written", [[], RULES], ids=["empty", "others"])
async def test_aggregated_rules_are_neither_lost_nor_drift(
    apply: Any, api: Any, options: Any, part: Json, written: list[Json]
) -> None:
    selector = {"matchLabels": part["metadata"]["labels"]}
    aggregation = {"clusterRoleSelectors": [selector]}
    name = f"{options.owner.namespace}-whole"
    whole = _role(name, rules=written, aggregationRule=aggregation)

    async def filled() -> Json | None:
        live: Json = await api.get(CLUSTER_ROLE, name)
        return live if live.get("rules") else None

    try:
        await apply(whole)
        before = await until(filled)
        changes = await apply(whole)
        after = await api.get(CLUSTER_ROLE, name)
        found = await diff.diff(api, [ownership.own(whole, options.owner)], options=options)
    finally:
        await api.delete(CLUSTER_ROLE, name)

    assert before["rules"] == after["rules"] == RULES
    assert [entry.action for entry in changes.entries] == ["unchanged"]
    assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    assert found == ()
