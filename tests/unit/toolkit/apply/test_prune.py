"""What an owner that is deleted leaves behind."""

import pytest

from toolkit.apply import prune
from toolkit.apply.prune import Pruned
from toolkit.objects import GroupVersionKind, ObjectRef


@pytest.mark.parametrize(
    ("policy", "prunes", "deletes"),
    [
        ("MirrorPrune", True, True),
        ("MirrorPrune", False, False),
        ("", True, True),
        ("", False, False),
        ("Delete", False, True),
        ("WaitForTermination", False, True),
        ("Orphan", True, False),
    ],
)
def test_deletion_policy(
    policy: str,
    prunes: bool,  # noqa: FBT001 - a table
    deletes: bool,  # noqa: FBT001
) -> None:
    assert prune.deletes(policy, prunes=prunes) is deletes


def test_what_finalizers_hold_stays_in_the_inventory() -> None:
    held, gone = (ObjectRef(GroupVersionKind("", "v1", "Secret"), "shop", name) for name in "ab")

    pruned = Pruned(deleted=(held,), gone=(gone,), held=((held, ("example.com/hold",)),))

    assert pruned.survivors == (held,)
