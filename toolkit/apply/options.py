"""How a set is to be applied: what stays the same for every object of it."""

from dataclasses import dataclass
from typing import Final

from toolkit.apply.ignore import IgnoreRule, require_few
from toolkit.apply.order import GroupKind
from toolkit.apply.ownership import Owner

MANAGER: Final = "kustomize-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The applier's settings for one set.

    ``force`` allows to recreate what cannot be changed in place. ``recheck`` has known objects
    dry-run as well. ``overridden`` names managers whose fields are taken over besides kubectl's.
    ``consumed`` are data keys of Secrets that admission must have replaced before they are stored.
    Deadlines are in seconds: ``stage_timeout`` for a stage to become ready, ``recreate_timeout``
    for a deleted object to be gone.
    """

    owner: Owner
    manager: str = MANAGER
    force: bool = False
    recheck: bool = False
    ignore: tuple[IgnoreRule, ...] = ()
    overridden: frozenset[str] = frozenset()
    custom_stage_kinds: frozenset[GroupKind] = frozenset()
    consumed: frozenset[str] = frozenset()
    concurrency: int = 8
    stage_timeout: float = 60.0
    recreate_timeout: float = 60.0

    def __post_init__(self) -> None:
        """Refuse more rules than can be looked at for each object.

        Raises:
            StalledError: there are too many.
        """
        require_few(self.ignore)
