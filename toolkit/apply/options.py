"""Options of an apply: the settings that are the same for all objects of a set."""

from dataclasses import dataclass
from typing import Final

from toolkit.apply.ignore import IgnoreRule, require_few
from toolkit.apply.order import GroupKind
from toolkit.apply.ownership import Owner

MANAGER: Final = "kustomize-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The settings of an applier for one set.

    - ``force``: recreate objects that cannot be changed in place.
    - ``recheck``: send a dry-run also for objects that are known to be unchanged.
    - ``overridden``: managers whose fields are taken over besides kubectl's.
    - ``consumed``: data keys of Secrets that admission must replace before they are stored.
    - ``stage_timeout``: seconds for a stage to become ready.
    - ``recreate_timeout``: seconds for an object to be deleted before it is created again.
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
        """Require that there are not too many ignore rules.

        Raises:
            StalledError: there are too many.
        """
        require_few(self.ignore)
