"""What a pass that fails must not forget."""

from controllers.kustomize.memory import Applied, Memory
from toolkit.objects import ObjectKey

KEY = ObjectKey("shop", "app")
APPLIED = Applied(fingerprint="f", digest="d", started=0.0, inventory=())


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
