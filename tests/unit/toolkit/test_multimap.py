"""Keys with one value and with several behave alike."""

from hypothesis import given
from hypothesis import strategies as st

from toolkit.multimap import MultiMap

STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 3)))


@given(STEPS)
def test_it_is_a_map_of_sets(steps: list[tuple[bool, str, int]]) -> None:
    found: MultiMap[str, int] = MultiMap()
    sets: dict[str, set[int]] = {"a": set(), "b": set()}

    for adds, key, value in steps:
        (found.add if adds else found.discard)(key, value)
        (sets[key].add if adds else sets[key].discard)(value)

        assert {key: set(found.of(key)) for key in sets} == sets
        assert {key for key in sets if key in found} == {key for key, v in sets.items() if v}
        assert sorted(found.keys()) == sorted(key for key, v in sets.items() if v)
