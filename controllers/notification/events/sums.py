"""How much waits for whom, so that room is made where most is.

A row costs more than its notice: ``ROW`` bytes are its other columns and its places in indexes.
"""

from collections import Counter
from typing import Final

from toolkit.objects import ObjectKey

ROW: Final = 512


class Sums:
    """How many deliveries wait for each Provider, the bytes of their notices, and of all rows."""

    def __init__(self) -> None:
        self.waiting: Counter[ObjectKey] = Counter()
        self.size: Counter[ObjectKey] = Counter()
        self.namespaces: Counter[str] = Counter()
        self.total = 0

    def copy(self) -> "Sums":
        """Return another one, for a transaction that may fail."""
        found = Sums()
        found.waiting, found.size = self.waiting.copy(), self.size.copy()
        found.namespaces, found.total = self.namespaces.copy(), self.total
        return found

    def add(self, provider: ObjectKey, count: int, size: int) -> None:
        """Add deliveries of a Provider; both numbers are negative for those that go."""
        self.waiting[provider] += count
        self.size[provider] += size
        self.namespaces[provider.namespace] += size + count * ROW
        self.total += size + count * ROW

    def forget(self, provider: ObjectKey) -> None:
        """Forget a Provider."""
        self.add(provider, -self.waiting[provider], -self.size[provider])
        del self.waiting[provider], self.size[provider]
        if not self.namespaces[provider.namespace]:
            del self.namespaces[provider.namespace]

    def largest(self) -> ObjectKey:
        """Return the Provider with most among those of the namespace with most.

        So who floods displaces what is their own, also with a great many Providers.
        """
        namespace = max(self.namespaces, key=self.namespaces.__getitem__)
        own = (key for key in self.size if key.namespace == namespace)
        return max(own, key=lambda key: self.size[key] + self.waiting[key] * ROW)
