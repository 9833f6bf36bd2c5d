"""Branches that several automations push to, beside the one that they check out.

A branch of its own is moved by force: it holds one commit on top of what is checked out. If two
automations did that to one branch, each would remove what the other had written. So there a commit
goes on top of the other's, as long as that was made for what is checked out now; and the branch is
moved only from where it was seen.

What this process has pushed is remembered, and what an earlier one has is in the statuses.
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
    """Knows who pushes where."""

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
        # The revision of a later run that pushed nothing says nothing about the commit.
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
