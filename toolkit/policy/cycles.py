"""Whether an object that waits for others would wait for itself. Pure.

The caller knows the dependencies; a node that it does not know depends on nothing.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

MAX_NODES: Final = 10_000
"""Nodes that are looked at; a larger graph counts as free of cycles here."""


def cycle(start: T, edges: Callable[[T], Iterable[T]]) -> tuple[T, ...]:
    """Return a way from ``start`` back to it, both ends included; empty if there is none."""
    came_from: dict[T, T] = {}
    waiting = [start]
    while waiting and len(came_from) < MAX_NODES:
        node = waiting.pop()
        for following in edges(node):
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
