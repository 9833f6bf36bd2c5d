"""Cycles of objects that wait for each other. Pure.

The caller knows the dependencies; an unknown object has none.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

MAX_NODES: Final = 10_000
"""Limit of visited objects; a larger graph counts as free of cycles."""
MAX_EDGES: Final = 50_000
"""Limit of followed references, with the same result: 40 ms."""


def cycle(start: T, edges: Callable[[T], Iterable[T]]) -> tuple[T, ...]:
    """Return a path from ``start`` back to it, with both ends; empty if there is no cycle."""
    came_from: dict[T, T] = {}
    waiting = [start]
    looked = 0
    while waiting and len(came_from) < MAX_NODES:
        node = waiting.pop()
        for following in edges(node):
            looked += 1
            if looked > MAX_EDGES:
                return ()
            if following == start:
                return (*_way(came_from, start, node), start)
            if following not in came_from:
                came_from[following] = node
                waiting.append(following)
    return ()


def _way(came_from: dict[T, T], start: T, node: T) -> list[T]:
    way = [node]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]
