"""Objects are counted as ``flux stats`` counts them."""

from typing import Any

import pytest

import crds
from cli.commands import stats


def source(*, ready: str = "True", suspend: bool = False, size: int = 0) -> dict[str, Any]:
    return {
        "kind": "GitRepository",
        "spec": {"suspend": suspend},
        "status": {
            "artifact": {"size": size},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def test_suspended_objects_do_not_run_and_may_fail() -> None:
    objects = [source(size=10), source(ready="False", suspend=True, size=5), source(ready="False")]

    assert stats.counted(crds.GIT_REPOSITORY, objects) == {
        "kind": "GitRepository",
        "running": 2,
        "failing": 2,
        "suspended": 1,
        "storage": 15,
    }


@pytest.mark.parametrize(
    ("stored", "text"),
    [(0, "-"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 10, "1.5 MiB"), (3 << 30, "3.0 GiB")],
)
def test_sizes_are_fluxs(stored: int, text: str) -> None:
    assert stats.size(stored) == text
