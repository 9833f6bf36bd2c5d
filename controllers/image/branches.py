"""Push branches that several automations share.

An automation with a separate push branch resets it by force to one commit on top of the checked-out
commit. Two automations that did so with one branch would remove each other's changes. So on a
shared branch a commit goes on top of the other automation's commit, if that was made for the
present checkout. The branch is updated only if it is still at the commit that was read before.

The process remembers its own pushes; those of earlier processes are in the status of automations.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from controllers.image import settings
from controllers.image.settings import Plan
from crds.image_automation import ImageUpdateAutomation
from crds.source import GitRepository
from toolkit.errors import StalledError
from toolkit.objects import ObjectKey

_KEPT: Final = 1024

_Place = tuple[str, str]
"""URL of a repository, and a branch of it."""


def target(obj: ImageUpdateAutomation) -> ObjectKey:
    """Return which GitRepository an automation refers to."""
    ref = obj.spec.source_ref
    return ObjectKey(ref.namespace or obj.metadata.namespace, ref.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """Knows the automations that push to each branch."""

    automations: Callable[[], Iterable[ImageUpdateAutomation]]
    lookup: Callable[[ObjectKey], GitRepository | None]
    _pushed: OrderedDict[tuple[_Place, str], str] = field(default_factory=OrderedDict, init=False)

    def others(
        self, obj: ImageUpdateAutomation, source: GitRepository, plan: Plan
    ) -> tuple[ImageUpdateAutomation, ...]:
        """Return the other automations that push to the same branch, if that is not checked out."""
        if not plan.separate or not plan.to_branch:
            return ()
        return tuple(
            each for each in self._pushing(source.spec.url, plan.branch) if _key(each) != _key(obj)
        )

    def pushed(self, source: GitRepository, plan: Plan, commit: str, *, base: str) -> None:
        """Remember a commit, and the revision that it was made for."""
        self._pushed[(source.spec.url, plan.branch), commit] = base
        while len(self._pushed) > _KEPT:
            self._pushed.popitem(last=False)

    def is_current(
        self,
        source: GitRepository,
        plan: Plan,
        commit: str,
        *,
        base: str,
        among: Iterable[ImageUpdateAutomation],
    ) -> bool:
        """Tell whether one of the automations made this commit for the revision ``base``."""
        if self._pushed.get(((source.spec.url, plan.branch), commit)) == base:
            return True
        # If a later run pushed nothing, its revision is not that of the commit.
        told = {
            (each.status.last_push_commit, each.status.observed_source_revision)
            for each in among
            if each.status.last_push_time == each.status.last_automation_run_time
        }
        return (commit, base) in told

    def _pushing(self, url: str, branch: str) -> Iterator[ImageUpdateAutomation]:
        for each in self.automations():
            source = self.lookup(target(each))
            if source is None or source.spec.url != url or each.spec.suspend:
                continue
            try:
                plan = settings.plan(each, source)
            except StalledError:
                continue
            if plan.separate and plan.to_branch and plan.branch == branch:
                yield each


def _key(obj: ImageUpdateAutomation) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)
