"""New artifacts wake their users, new policies those whom they may concern, and nobody else."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from controllers import waking
from controllers.index import Index
from crds.meta import ORIGINS
from crds.source import GitRepository
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
USED = ObjectKey("team", "app")
USER = ObjectKey("team", "user")
ARTIFACT = {
    "digest": f"sha256:{'0' * 64}",
    "lastUpdateTime": "2026-01-01T00:00:00Z",
    "path": "gitrepository/team/app/1.tar.gz",
    "revision": "main@sha1:1",
    "url": "http://store/1.tar.gz",
}


@dataclass
class Queue:
    """A controller's queue, and an informer that knows some objects."""

    known: tuple[ObjectKey, ...] = ()
    woken: list[tuple[ObjectKey, str]] = field(default_factory=list)

    @property
    def informer(self) -> "Queue":
        return self

    def items(self) -> dict[ObjectKey, object]:
        return dict.fromkeys(self.known)

    def enqueue(self, key: ObjectKey, trigger: str) -> None:
        self.woken.append((key, trigger))


def source(artifact: Json | None, *conditions: Json) -> GitRepository:
    body = {
        "metadata": {"name": USED.name, "namespace": USED.namespace},
        "spec": {"interval": "1m", "url": "https://git.example/app"},
        "status": {"conditions": conditions} | ({"artifact": artifact} if artifact else {}),
    }
    return msgspec.convert(body, GitRepository)


def woken_by(before: Json | None, after: Json | None) -> list[tuple[ObjectKey, str]]:
    return woken_by_change(source(before), source(after))


def woken_by_change(
    before: GitRepository | None, after: GitRepository | None
) -> list[tuple[ObjectKey, str]]:
    queue, index = Queue(), Index()
    index.put(USER, [ObjectRef(GIT, USED.namespace, USED.name)])
    index.put(ObjectKey("team", "other"), [ObjectRef(GIT, "team", "else")])
    handle = waking.by_source(GIT, queue.enqueue, index)

    handle(Change(type="MODIFIED", key=USED, old=before, new=after))

    return queue.woken


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ARTIFACT),
        (ARTIFACT, {**ARTIFACT, "revision": "main@sha1:2"}),
        (ARTIFACT, {**ARTIFACT, "digest": f"sha256:{'1' * 64}"}),
        (ARTIFACT, {**ARTIFACT, "metadata": {"signer": "somebody"}}),
        # The same content, stored by Flux before the cluster was moved, and by Penstock since.
        (ARTIFACT, {**ARTIFACT, "metadata": {ORIGINS: "[]"}}),
    ],
)
def test_new_artifact_wakes_its_users(before: Json | None, after: Json) -> None:
    assert woken_by(before, after) == [(USER, "source")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ARTIFACT, ARTIFACT),
        (ARTIFACT, {**ARTIFACT, "url": "http://elsewhere/1.tar.gz"}),
        (ARTIFACT, None),
        (None, None),
    ],
)
def test_same_or_no_artifact_wakes_nobody(before: Json | None, after: Json | None) -> None:
    assert woken_by(before, after) == []


def condition(type_: str, status: str, message: str) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": "Any",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


FAILS = condition("Ready", "False", "no such chart")
STALLED = condition("Stalled", "True", "no such field")


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        (None, source(None, FAILS), True),
        (source(None), source(None, FAILS), True),
        (source(None, condition("Ready", "Unknown", "working")), source(None, FAILS), True),
        (source(None, FAILS), source(None, condition("Ready", "False", "other")), True),
        (source(ARTIFACT, FAILS), source(ARTIFACT, FAILS, STALLED), True),
        (source(ARTIFACT), source(None, FAILS), True),
        (source(None, FAILS), source(None, FAILS), False),
        (source(ARTIFACT, FAILS), source(ARTIFACT, condition("Ready", "True", "stored")), False),
        (source(None, FAILS), source(None, condition("Ready", "Unknown", "working")), False),
        (source(None, FAILS), None, False),
    ],
)
def test_new_failure_wakes_those_who_repeat_it(
    before: GitRepository | None,
    after: GitRepository | None,
    wakes: bool,  # noqa: FBT001 - a row
) -> None:
    assert woken_by_change(before, after) == ([(USER, "source")] if wakes else [])


@pytest.mark.parametrize(
    ("namespace", "everywhere", "woken"),
    [
        ("team", False, ["team"]),
        ("", False, ["team", "other"]),
        ("team", True, ["team", "other"]),
    ],
)
def test_policies_wake_whom_they_may_concern(
    namespace: str, *, everywhere: bool, woken: list[str]
) -> None:
    queue: Any = Queue(known=(ObjectKey("team", "a"), ObjectKey("other", "b")))

    waking.by_policy([queue], everywhere=everywhere)(namespace)

    assert [key.namespace for key, _ in queue.woken] == woken
    assert {trigger for _, trigger in queue.woken} == {"policy"}
