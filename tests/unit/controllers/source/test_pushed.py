"""The source of an automation is fetched when that has pushed."""

from typing import Any

import msgspec
import pytest

from controllers.source import pushed
from crds.image_automation import ImageUpdateAutomation
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey

KEY = ObjectKey("apps", "fleet")


def automation(commit: str, **source: Any) -> ImageUpdateAutomation:
    return msgspec.convert(
        {
            "metadata": {"name": "fleet", "namespace": "apps"},
            "spec": {
                "interval": "30m",
                "sourceRef": {"kind": "GitRepository", "name": "fleet", **source},
            },
            "status": {"lastPushCommit": commit} if commit else {},
        },
        ImageUpdateAutomation,
    )


def woken(
    old: ImageUpdateAutomation | None, new: ImageUpdateAutomation | None
) -> list[tuple[ObjectKey, str]]:
    found: list[tuple[ObjectKey, str]] = []

    def enqueue(key: ObjectKey, trigger: str) -> None:
        found.append((key, trigger))

    pushed.handler(enqueue)(Change(type="MODIFIED", key=KEY, old=old, new=new))
    return found


@pytest.mark.parametrize("before", ["", "a1"])
def test_a_push_wakes_the_source(before: str) -> None:
    assert woken(automation(before), automation("b2")) == [(KEY, pushed.TRIGGER)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, automation("a1")),  # after a start the sources are fetched in any case
        (automation("a1"), automation("a1")),
        (automation("a1"), None),
        (automation("a1"), automation("")),
    ],
)
def test_without_a_push_nothing_is_woken(
    old: ImageUpdateAutomation | None, new: ImageUpdateAutomation | None
) -> None:
    assert woken(old, new) == []


def test_a_status_does_not_wake_sources_of_another_namespace() -> None:
    new = automation("b2", namespace="other")

    assert woken(automation("a1", namespace="other"), new) == []
    assert woken(automation("a1"), automation("b2", namespace="apps")) == [(KEY, pushed.TRIGGER)]
