"""Nothing is decided from what has not been read yet."""

from types import SimpleNamespace
from typing import Any

import pytest

from controllers.image import component
from toolkit.errors import WaitingError


def test_policies_that_are_not_read_yet_are_waited_for() -> None:
    informer: Any = SimpleNamespace(synced=False, items=dict)

    with pytest.raises(WaitingError, match="are not read yet"):
        component._read(informer)

    informer.synced = True
    assert component._read(informer) == []


def test_labels_that_are_not_read_yet_are_waited_for() -> None:
    namespaces = SimpleNamespace(get=lambda _: None)
    policies: Any = SimpleNamespace(namespaces=namespaces, labels=lambda _: {"a": "b"})

    with pytest.raises(WaitingError, match="the labels of namespace 'team' are not read yet"):
        component._labels(policies, "team")

    namespaces.get = lambda _: object()
    assert component._labels(policies, "team") == {"a": "b"}
