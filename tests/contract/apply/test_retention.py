"""A definition of a kept group is not deleted while objects of its kind exist."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tools import rights
from tests.tools.waiting import until
from tests.tools.widgets import sized
from toolkit.apply import diff, ownership, prune, retention
from toolkit.apply.options import ApplyOptions
from toolkit.apply.ownership import KUSTOMIZE_GROUP, Owner
from toolkit.apply.projection import Live, Projector
from toolkit.apply.retention import DEFINITION, Retention
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, gvk_of

_RESOURCE = "customresourcedefinitions"


@pytest.fixture
def group(namespace: str, kubectl: Any) -> Iterator[str]:
    name = f"{namespace}.example.com"
    yield name
    kubectl("delete", "crd", f"widgets.{name}", "--ignore-not-found", "--wait=false")


@pytest.fixture
def keeper(owner: Owner, group: str) -> Owner:
    return dataclasses.replace(owner, keeps=Retention(groups=frozenset({group})))


async def _live(api: Client, group: str) -> Json:
    found = await api.get(DEFINITION, f"widgets.{group}")
    assert "deletionTimestamp" not in found["metadata"]
    return found


async def _served(api: Client, gvk: GroupVersionKind) -> None:
    """Wait until discovery has the kind: a definition is established a moment before."""

    async def found() -> bool:
        api.mapper.invalidate()
        try:
            await api.mapper.resource(gvk)
        except NoMatchError:
            return False
        return True

    await until(found)


async def test_definition_is_pruned_only_after_its_last_object(
    apply: Any, make: Any, api: Client, keeper: Owner, group: str
) -> None:
    widget = make(f"{group}/v1", "Widget", "one", spec={"size": 1})
    changes = await apply(sized(group), options=ApplyOptions(owner=keeper))
    others = dataclasses.replace(keeper, name="others")
    await _served(api, gvk_of(widget))
    made = await apply(widget, options=ApplyOptions(owner=others))

    pruned = await prune.prune(api, changes.refs, owner=keeper)

    assert pruned.survivors == pruned.kept == changes.refs
    assert pruned.lines == ()
    await _live(api, group)

    await prune.prune(api, made.refs, owner=others)
    pruned = await prune.prune(api, changes.refs, owner=keeper)

    assert pruned.deleted == changes.refs


async def test_definition_that_a_watch_shows_is_looked_at_again(
    apply: Any, make: Any, api: Client, keeper: Owner, group: str
) -> None:
    """A watch saves the read of an object before its deletion."""
    options = ApplyOptions(owner=keeper)
    await apply(
        sized(group),
        make(f"{group}/v1", "Widget", "one", spec={"size": 1}),
        options=options,
    )
    projector = Projector(gvk=DEFINITION, manager=options.manager, group=KUSTOMIZE_GROUP)
    seen = projector.project(await _live(api, group))

    def find(_: ObjectRef) -> Live:
        return seen

    refs = (ObjectRef(DEFINITION, "", f"widgets.{group}"),)
    pruned = await prune.prune(api, refs, owner=keeper, find=find)

    assert pruned.kept == refs


async def test_plan_shows_no_deletion_of_a_definition_in_use(
    apply: Any, make: Any, api: Client, keeper: Owner, group: str
) -> None:
    options = ApplyOptions(owner=keeper)
    widget = make(f"{group}/v1", "Widget", "one", spec={"size": 1})
    changes = await apply(sized(group), widget, options=options)
    remaining = [ownership.own(widget, keeper)]

    findings = await diff.diff(api, remaining, options=options, inventory=changes.refs)

    assert [finding.fate for finding in findings] == []


async def test_definition_is_kept_where_its_objects_may_not_be_listed(
    api: Client, apply: Any, keeper: Owner, group: str, kubectl: Any
) -> None:
    await apply(sized(group), options=ApplyOptions(owner=keeper))
    name = f"widgets.{group}"
    user = f"system:serviceaccount:{keeper.namespace}:blind"
    blind = api.impersonating(user)

    assert not await retention.in_use(api, name)
    assert await retention.in_use(blind, name)
    rule = {"apiGroups": [DEFINITION.group], "resources": [_RESOURCE], "verbs": ["get"]}
    resource = f"--resource={_RESOURCE}.{DEFINITION.group}"
    kubectl("create", "clusterrole", group, resource, "--verb=get")
    kubectl("create", "clusterrolebinding", group, f"--clusterrole={group}", f"--user={user}")
    await rights.noticed(api, user, rule)
    assert await retention.in_use(blind, name)


async def test_definition_without_a_served_version_counts_as_in_use(
    api: Client, apply: Any, keeper: Owner, group: str
) -> None:
    """The store may hold objects that nobody can list."""
    hidden = sized(group)
    hidden["spec"]["versions"][0]["served"] = False
    changes = await apply(hidden, options=ApplyOptions(owner=keeper))

    pruned = await prune.prune(api, changes.refs, owner=keeper)

    assert pruned.kept == changes.refs


async def test_definition_that_is_gone_is_not_in_use(api: Client, group: str) -> None:
    assert not await retention.in_use(api, f"widgets.{group}")
