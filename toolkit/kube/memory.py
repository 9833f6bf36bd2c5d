"""A cache of answers that live for some seconds."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remembered(Generic[T]):
    """An answer, and the moment until which it is believed."""

    value: T
    until: float


class Memory(Generic[T]):
    """Keeps at most ``size`` answers; the least recently used one is dropped first."""

    def __init__(self, *, size: int, now: Callable[[], float]) -> None:
        self._size = size
        self._now = now
        self._answers: OrderedDict[bytes, Remembered[T]] = OrderedDict()

    def recall(self, key: bytes) -> Remembered[T] | None:
        """Return the answer, if it is still to be believed."""
        answer = self._answers.get(key)
        if answer is None:
            return None
        if self._now() >= answer.until:
            del self._answers[key]
            return None
        self._answers.move_to_end(key)
        return answer

    def keep(self, key: bytes, value: T, *, seconds: float) -> T:
        """Store an answer for ``seconds``, and return it."""
        self._answers[key] = Remembered(value, self._now() + seconds)
        self._answers.move_to_end(key)
        while len(self._answers) > self._size:
            self._answers.popitem(last=False)
        return value
