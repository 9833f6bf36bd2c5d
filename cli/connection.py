"""What the user says about the cluster that a command works with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Cluster, namespace and user that the flags name; ``timeout`` is in seconds.

    ``user`` and ``groups`` are who to act as. ``flags`` are those that ``goflags`` has read.
    """

    kubeconfig: str
    context: str
    namespace: str
    timeout: float
    user: str = ""
    groups: tuple[str, ...] = ()
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
