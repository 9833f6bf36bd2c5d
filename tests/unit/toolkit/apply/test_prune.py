"""What an owner that is deleted leaves behind."""

import pytest

from toolkit.apply import prune


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
