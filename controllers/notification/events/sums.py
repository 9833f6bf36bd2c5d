"""The size of waiting deliveries for each Provider, to find the largest when space is needed.

A row takes more space than its notice: ``ROW`` is the size of its other columns and of its index
entries.
"""

from collections import Counter
from typing import Final

from toolkit.objects import ObjectKey

ROW: Final = 512


class Sums:
    """Deliveries and bytes of notices for each Provider, and the bytes of all rows."""

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
        """Return the largest Provider of the largest namespace.

        So a tenant with many events displaces only its own, even with a great many Providers.
        """
        namespace = max(self.namespaces, key=self.namespaces.__getitem__)
        own = (key for key in self.size if key.namespace == namespace)
        return max(own, key=lambda key: self.size[key] + self.waiting[key] * ROW)
