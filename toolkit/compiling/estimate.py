"""What a build takes from nothing, and what is left of one that runs.

Packages are those that a part compiles after the rows above it. The processor time is that of
the control plane (docs/adr/0051), scaled by the size of the sources. A test demands a row for
each part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Cost:
    """How many packages a part compiles, and the processor time of it in seconds."""

    packages: int
    seconds: int


COSTS: Final[Mapping[str, Cost]] = MappingProxyType(
    {
        "libengine.so": Cost(576, 168),
        "libenginehelm.so": Cost(702, 281),
        "kube-apiserver": Cost(1244, 251),
        "kube-controller-manager": Cost(365, 69),
        "kube-scheduler": Cost(6, 1),
        "kubectl": Cost(86, 13),
        "etcd": Cost(92, 18),
        "kwok": Cost(61, 12),
        "notation-sign": Cost(4, 1),
        "sops": Cost(557, 193),
        "age-keygen": Cost(1, 1),
        "cosign": Cost(844, 226),
        "flux": Cost(459, 155),
        "helm": Cost(31, 7),
        "registry": Cost(328, 93),
        "versitygw": Cost(319, 171),
        "fake-gcs-server": Cost(248, 63),
        "informer": Cost(1, 1),
        "podprobe": Cost(1, 1),
        "nats-server": Cost(26, 36),
        "kubelet": Cost(100, 18),
        "kube-proxy": Cost(39, 14),
        "coredns": Cost(205, 52),
        "pause": Cost(1, 1),
        "azurite": Cost(0, 20),
    }
)
UNKNOWN: Final = Cost(500, 60)


def of(parts: Sequence[str]) -> Cost:
    """Return what parts cost that are built in one go."""
    costs = [COSTS.get(part, UNKNOWN) for part in parts]
    return Cost(sum(each.packages for each in costs), sum(each.seconds for each in costs))


def remaining(cost: Cost, *, done: int, elapsed: float, processors: int) -> float:
    """Return the seconds that are left, after ``elapsed`` seconds and ``done`` packages.

    The table counts at first, and more and more how fast this machine is.
    """
    share = min(done / cost.packages, 1.0) if cost.packages else 1.0
    by_table = cost.seconds / processors * (1 - share)
    by_this_run = elapsed * (1 - share) / share if share else by_table
    return by_table * (1 - share) + by_this_run * share


def duration(seconds: float) -> str:
    """Return seconds as they are said: ``40s``, ``3m20s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
