"""Which worker runs what: a world that several files share starts once, on one worker.

A worker keeps what its session fixtures have started. So all files of a group below are one unit
of work, which begins where its first file stands. The groups come first in their folder, and the
longest begin with the run: no worker begins the longest unit last. Each other file is a unit of its
own, as with ``--dist loadfile``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # The second control plane, and the rough world on it. The world over a bucket is on that
        # plane too, and must have ended before; of the others those with two replicas come first.
        "rough": (
            "tests/contract/controlplane/test_control_plane.py",
            "tests/contract/kube/test_remote.py",
            "tests/contract/cli/test_stack.py",
            "tests/e2e/test_store_backends.py",
            "tests/e2e/test_replicas.py",
            "tests/e2e/test_image_pulls.py",
            "tests/e2e/test_failures.py",
            "tests/e2e/test_helm_failures.py",
            "tests/e2e/test_large_chart.py",
            "tests/e2e/test_artifactgenerator_failures.py",
            "tests/e2e/test_decryption_services.py",
            "tests/e2e/test_storage_quota.py",
            "tests/e2e/test_missing_grants.py",
            "tests/e2e/test_lonely_window.py",
        ),
        # They share what takes half a minute to build, and then one real node. Files that share an
        # installation follow each other, and the last of them takes it away. Two nodes, because
        # pods that stop and Leases that expire leave the processors idle most of the time.
        "image": (
            "tests/unit/release/test_building.py",
            "tests/e2e/node/test_image.py",
            "tests/e2e/node/test_bootstrap.py",
            "tests/e2e/node/test_leaving.py",
            "tests/e2e/node/test_guide.py",
        ),
        "node": (
            "tests/e2e/node/test_upgrade.py",
            "tests/e2e/node/test_availability.py",
            "tests/e2e/node/test_removal.py",
            "tests/e2e/node/test_chart.py",
        ),
        # Worlds of one file.
        "ungated": ("tests/e2e/test_ungated.py",),
        "seeds": ("tests/e2e/test_seeds.py",),
        "locked": ("tests/e2e/test_tenancy.py",),
    }
)
"""The files of each group, in the order in which they run; the longest groups first."""

_WITH_THE_RUN: Final = frozenset({"image", "node"})
"""Groups that take minutes, most of which they wait: whatever they begin after, they end last."""
_FOLDERS: Final = ("docs", "unit", "loopback", "conformance", "fuzz", "contract", "e2e")
"""What needs least runs first: a broken function is known before a cluster starts."""
_PLACES: Final = MappingProxyType(
    {file: (group, place) for group, files in GROUPS.items() for place, file in enumerate(files)}
)


def unit(nodeid: str) -> str:
    """Return the name of what must run on one worker together with this test."""
    file = nodeid.partition("::")[0]
    return _PLACES[file][0] if file in _PLACES else file


def rank(nodeid: str) -> tuple[int, int, int]:
    """Return where a test belongs in the run; equal ones keep their order."""
    group, place = _PLACES.get(nodeid.partition("::")[0], ("", 0))
    folder = 0 if group in _WITH_THE_RUN else 1 + _FOLDERS.index(nodeid.split("/")[1])
    return folder, [*GROUPS, ""].index(group), place


class Units(LoadScopeScheduling):
    """Gives whole units of work to the workers, in the order of the run."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Distribute by units where ``pyproject.toml``'s way of distribution is in force."""
    return Units(config, log) if config.getvalue("dist") == "loadfile" else None
