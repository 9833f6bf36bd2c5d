"""One object of a fixed name: kept in place, and never brought back once somebody deletes it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change
from toolkit.kube.singleton import Singleton
from toolkit.objects import GroupVersionKind, Json, key_of

CLUSTER_ROLE = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")


class Role:
    """A ClusterRole that a Singleton keeps, and the changes that a watch would tell."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.kept = Singleton(client, CLUSTER_ROLE, name, manager="keeper")

    async def apply(self, **labels: str) -> Json | None:
        metadata: Json = {"name": self.name, "labels": labels}
        obj = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        return await self.kept.apply(obj | {"metadata": metadata})

    async def exists(self) -> bool:
        try:
            await self.client.get(CLUSTER_ROLE, self.name)
        except NotFoundError:
            return False
        return True

    def see(self, old: Json | None, new: Json | None) -> bool:
        change = "MODIFIED" if old and new else "ADDED" if new else "DELETED"
        key = key_of(new or old or {})
        return self.kept.see(Change(type=change, key=key, old=old, new=new))


@pytest_asyncio.fixture
async def role(client: Client, namespace: str) -> AsyncIterator[Role]:
    """Give a role that nobody else knows of."""
    made = Role(client, namespace)
    yield made
    await made.kept.withdraw()


async def test_write_under_way_does_not_undo_a_deletion(role: Role) -> None:
    made = await role.apply()

    await role.client.delete(CLUSTER_ROLE, role.name)
    written = await role.apply(a="1")

    assert written is None
    assert not await role.exists()
    assert role.see(made, None)
    assert role.kept.deleted


async def test_object_of_an_earlier_process_is_not_brought_back_either(role: Role) -> None:
    earlier = await Role(role.client, role.name).apply()
    role.see(None, earlier)

    await role.client.delete(CLUSTER_ROLE, role.name)

    assert await role.apply() is None
    assert not await role.exists()


async def test_deletion_during_the_first_write_is_final(role: Role) -> None:
    made = await role.apply()
    await role.client.delete(CLUSTER_ROLE, role.name)

    # The watch may tell of both before the answer to the write arrives.
    role.see(None, made)
    assert role.see(made, None)

    assert await role.apply(a="1") is None
    assert not await role.exists()


async def test_change_by_another_is_put_right(role: Role) -> None:
    made = await role.apply(a="1")
    changed = await role.client.patch(
        CLUSTER_ROLE, role.name, "", {"metadata": {"labels": {"a": "2"}}}, strategy="merge"
    )
    assert not role.see(made, changed)

    applied = await role.apply(a="1")

    assert applied is not None
    assert applied["metadata"]["labels"] == {"a": "1"}


async def test_own_withdrawal_is_no_deletion_by_another(role: Role) -> None:
    made = await role.apply()
    role.see(None, made)

    assert await role.kept.withdraw()
    again = await role.apply()
    late = role.see(made, None)

    assert not late
    assert again is not None
    assert await role.apply(a="1") is not None


async def test_withdrawal_of_what_is_not_there_tells_so(role: Role) -> None:
    assert not await role.kept.withdraw()
