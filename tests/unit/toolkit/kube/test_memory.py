"""Answers are believed for seconds, and only so many are kept."""

from toolkit.kube.memory import Memory


def test_an_answer_ends_when_its_own_time_does() -> None:
    clock = [0.0]
    memory: Memory[bool] = Memory(size=10, now=lambda: clock[0])
    assert memory.keep(b"a", value=True, seconds=5.0)
    assert not memory.keep(b"b", value=False, seconds=2.0)
    clock[0] = 2.0

    found = memory.recall(b"a")

    assert found is not None
    assert found.value
    assert memory.recall(b"b") is None
    clock[0] = 5.0
    assert memory.recall(b"a") is None


def test_what_was_used_least_recently_goes_first() -> None:
    memory: Memory[int] = Memory(size=2, now=lambda: 0.0)
    for number, key in enumerate((b"a", b"b")):
        memory.keep(key, number, seconds=1.0)
    memory.recall(b"a")

    memory.keep(b"c", 2, seconds=1.0)

    assert memory.recall(b"b") is None
    assert memory.recall(b"a") is not None
    assert memory.recall(b"c") is not None
