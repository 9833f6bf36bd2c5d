"""What has automations look again: choices, and what decides whether they may be written."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controllers.image import waking
from crds import IMAGE_UPDATE_AUTOMATION
from crds.image import ImagePolicy
from crds.policy_image import ImageVerificationPolicy
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json, ObjectKey

KEY = ObjectKey("team", "app")


class Watched:
    """What can be subscribed to, with the objects that it has."""

    def __init__(self, *keys: ObjectKey) -> None:
        self.handlers: list[Callable[..., None]] = []
        self.keys = keys

    def subscribe(self, handler: Callable[..., None]) -> None:
        self.handlers.append(handler)

    def items(self) -> dict[ObjectKey, object]:
        return dict.fromkeys(self.keys, object())

    def tell(self, old: object, new: object) -> None:
        for handler in self.handlers:
            handler(Change(type="MODIFIED", key=KEY, old=old, new=new))


class Controller:
    """Remembers who is to look again."""

    gvk = GroupVersionKind(*IMAGE_UPDATE_AUTOMATION.gvk)

    def __init__(self) -> None:
        self.informer = Watched(ObjectKey("team", "bot"), ObjectKey("other", "bot"))
        self.woken: list[ObjectKey] = []

    def enqueue(self, key: ObjectKey, _: str) -> None:
        self.woken.append(key)


@pytest.fixture
def scene() -> dict[str, Any]:
    controller, chosen, demanded = Controller(), Watched(), Watched()
    others: Any = (Watched(), chosen, Watched(), demanded)
    waking.automations(controller, *others)  # type: ignore[arg-type]  # what is used of it
    return {"controller": controller, "chosen": chosen, "demanded": demanded}


def policy(tag: str = "1.0.0", annotation: str = "", **metadata: Any) -> ImagePolicy:
    annotations = {"policy.penstock.dev/verify": annotation} if annotation else {}
    body: Json = {
        "metadata": {"name": "app", "namespace": "team", "annotations": annotations, **metadata},
        "spec": {"imageRepositoryRef": {"name": "app"}, "policy": {"alphabetical": {}}},
        "status": {"latestRef": {"name": "ghcr.io/org/web", "tag": tag}},
    }
    return msgspec.convert(body, ImagePolicy)


@pytest.mark.parametrize(
    ("after", "wakes"),
    [
        (policy("1.1.0"), True),
        (policy(annotation="release"), True),
        (policy(labels={"auto": "yes"}), True),
        (None, True),
        (policy(annotations={"other": "x"}), False),
        (policy(), False),
    ],
)
def test_what_a_policy_of_the_namespace_has_chosen_counts(
    scene: dict[str, Any], after: ImagePolicy | None, *, wakes: bool
) -> None:
    scene["chosen"].tell(policy(), after)

    assert scene["controller"].woken == ([ObjectKey("team", "bot")] if wakes else [])


def demand(*images: str, status: bool = False) -> ImageVerificationPolicy:
    verifiers = [{"name": "a", "cosign": {"secretRef": {"name": "keys"}}}]
    metadata = {"name": "signed", "generation": 2 if status else 1}
    body = {"metadata": metadata, "spec": {"images": list(images), "verifiers": verifiers}}
    return msgspec.convert(body, ImageVerificationPolicy)


def test_what_must_be_signed_counts_in_every_namespace(scene: dict[str, Any]) -> None:
    scene["demanded"].tell(demand("ghcr.io/a/*"), demand("ghcr.io/a/*", status=True))
    assert scene["controller"].woken == []

    scene["demanded"].tell(demand("ghcr.io/a/*"), demand("ghcr.io/b/*"))
    scene["demanded"].tell(demand("ghcr.io/b/*"), None)

    assert scene["controller"].woken == [ObjectKey("team", "bot"), ObjectKey("other", "bot")] * 2
