"""The flags about the cluster of a command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Cluster, namespace and user that the flags name; ``timeout`` is in seconds.

    ``user`` and ``groups`` are for impersonation. ``flags`` are those that ``goflags`` has parsed.
    """

    kubeconfig: str
    context: str
    namespace: str
    timeout: float
    user: str = ""
    groups: tuple[str, ...] = ()
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
