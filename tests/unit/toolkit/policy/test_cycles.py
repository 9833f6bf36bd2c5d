"""Who would wait for itself is found, however far the way."""

from toolkit.policy import cycles


def edges(**waits: str) -> dict[str, list[str]]:
    return {name: others.split() for name, others in waits.items()}


def found(start: str, graph: dict[str, list[str]]) -> tuple[str, ...]:
    return cycles.cycle(start, lambda node: graph.get(node, []))


def test_a_chain_has_no_cycle() -> None:
    assert found("a", edges(a="b c", b="c d", c="d")) == ()


def test_the_way_back_is_told_in_order() -> None:
    assert found("a", edges(a="x b", b="c", c="x a")) == ("a", "b", "c", "a")


def test_who_waits_for_itself_is_a_cycle() -> None:
    assert found("a", edges(a="a")) == ("a", "a")


def test_a_cycle_of_others_is_not_its_own() -> None:
    assert found("a", edges(a="b", b="c", c="b")) == ()


def test_the_search_ends_in_a_graph_without_end() -> None:
    assert cycles.cycle(0, lambda node: (node + 1, node + 2)) == ()


def test_the_search_ends_where_everything_waits_for_everything() -> None:
    """Of a thousand such objects, to look at a million edges takes a second."""
    asked: list[int] = []

    def edges(node: int) -> range:
        asked.append(node)
        return range(1, 1001)

    assert cycles.cycle(0, edges) == ()
    assert len(asked) == cycles.MAX_EDGES // 1000 + 1
