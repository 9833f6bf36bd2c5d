"""What was stored for objects that are gone goes; doubt removes nothing."""

from collections.abc import Mapping

import pytest

from toolkit.artifact import orphans
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError

HERE = Owner(kind="ExternalArtifact", namespace="apps", name="here")
GONE = Owner(kind="ExternalArtifact", namespace="apps", name="gone")


class Kept:
    """A store that holds two owners' artifacts."""

    def __init__(self) -> None:
        self.owners = {HERE: 1, GONE: 1}

    async def usage(self, kind: str, namespace: str = "") -> Mapping[Owner, int]:
        assert (kind, namespace) == ("ExternalArtifact", "")
        return dict(self.owners)

    async def remove(self, owner: Owner) -> None:
        del self.owners[owner]


async def test_only_orphans_go() -> None:
    store = Kept()

    async def exists(owner: Owner) -> bool:
        return owner == HERE

    assert await orphans.sweep(store, "ExternalArtifact", exists) == (GONE,)
    assert list(store.owners) == [HERE]


async def test_doubt_removes_nothing() -> None:
    store = Kept()

    async def exists(owner: Owner) -> bool:
        raise TransientError(f"who knows of {owner.name}")

    with pytest.raises(TransientError):
        await orphans.sweep(store, "ExternalArtifact", exists)
    assert len(store.owners) == 2
