"""What a pass that fails must not forget, and what a complete one makes needless."""

from dataclasses import replace

import pytest

from controllers.kustomize.memory import Applied, Memory
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.render.kustomize import Footprint

KEY = ObjectKey("shop", "app")
APPLIED = Applied(fingerprint="f", digest="d", started=0.0, inventory=())
SETTLED = replace(APPLIED, settled=True)
BUILT = replace(SETTLED, settings="s", footprint=Footprint(questions="cfile", digest="1"))
LEAVING = replace(SETTLED, leaving=(ObjectRef(GroupVersionKind("", "v1", "Secret"), "shop", "s"),))


def test_drift_is_answered_by_a_complete_apply_only() -> None:
    memory = Memory()
    memory.put(KEY, APPLIED)

    first = memory.asked(KEY, frozenset({"drift", "source"}))
    after_failure = memory.asked(KEY, frozenset({"dependency"}))
    memory.put(KEY, APPLIED)
    after_apply = memory.asked(KEY, frozenset({"interval"}))

    assert (first, after_failure) == ({"drift", "source"}, {"drift", "dependency"})
    assert after_apply == {"interval"}


def test_what_was_asked_of_one_that_is_gone_is_not_asked_of_its_successor() -> None:
    memory = Memory()
    memory.asked(KEY, frozenset({"requested", "gone"}))

    memory.forget(KEY)

    assert memory.asked(KEY, frozenset({"created"})) == {"created"}


@pytest.mark.parametrize(
    ("applied", "trigger", "watched", "stands"),
    [
        (SETTLED, "interval", True, True),
        (SETTLED, "source", True, True),
        (SETTLED, "drift", True, False),
        (SETTLED, "requested", True, False),
        (SETTLED, "gone", True, False),
        # what is not watched, and the end of what is leaving, is looked for at each interval
        (SETTLED, "interval", False, False),
        (LEAVING, "interval", True, False),
        (LEAVING, "source", True, True),
        # health is waited for before anything is looked for
        (replace(LEAVING, settled=False), "interval", False, True),
    ],
)
def test_an_apply_stands_until_something_may_have_changed(
    applied: Applied,
    trigger: str,
    watched: bool,  # noqa: FBT001 - a table
    stands: bool,  # noqa: FBT001
) -> None:
    assert applied.stands("f", {trigger}, watched=watched) is stands
    assert not applied.stands("other", {trigger}, watched=watched)


@pytest.mark.parametrize(
    ("applied", "settings", "trigger", "watched", "depends"),
    [
        (BUILT, "s", "source", True, True),
        (BUILT, "other", "source", True, False),
        (BUILT, "s", "drift", True, False),
        (BUILT, "s", "requested", True, False),
        (BUILT, "s", "interval", False, False),
        # an apply that broke off, that is awaited, whose objects are leaving, that is unknown
        (replace(BUILT, fingerprint=""), "s", "source", True, False),
        (replace(BUILT, settled=False), "s", "source", True, False),
        (replace(BUILT, leaving=LEAVING.leaving), "s", "source", True, False),
        (replace(SETTLED, settings="s"), "s", "source", True, False),
    ],
)
def test_only_what_the_sources_hold_decides_whether_a_new_revision_is_applied(
    applied: Applied,
    settings: str,
    trigger: str,
    watched: bool,  # noqa: FBT001 - a table
    depends: bool,  # noqa: FBT001
) -> None:
    assert applied.depends(settings, {trigger}, watched=watched) is depends


def test_an_apply_that_is_renewed_stands_for_the_new_sources_and_has_to_be_concluded() -> None:
    applied = replace(BUILT, changed=True)

    applied.renew("new", started=5.0)

    assert applied.stands("new", {"source"}, watched=True)
    assert not applied.stands("f", {"source"}, watched=True)
    assert (applied.settled, applied.changed, applied.started) == (False, False, 5.0)
