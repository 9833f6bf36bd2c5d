"""Which automations push to the same branch, and whose commit a branch is at."""

from typing import Any

import msgspec
import pytest

from controllers.image import settings
from controllers.image.branches import Branches
from crds.image_automation import ImageUpdateAutomation
from crds.source import GitRepository
from toolkit.objects import ObjectKey

URL = "https://git.example.com/fleet"
THERE = "main@sha1:b"


def automation(name: str = "app", *, branch: str = "images", **more: Any) -> ImageUpdateAutomation:
    git = {"commit": {"author": {"email": "bot@example.com"}}, "push": {"branch": branch}}
    spec = {"interval": "1m", "sourceRef": {"name": "fleet"}, "git": git, **more}
    metadata = {"name": name, "namespace": "team"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ImageUpdateAutomation)


def source(url: str = URL) -> GitRepository:
    spec = {"url": url, "interval": "1m", "ref": {"branch": "main"}}
    return msgspec.convert({"spec": spec}, GitRepository)


def branches(*others: ImageUpdateAutomation, **sources: GitRepository) -> Branches:
    known = {"fleet": source(), **sources}
    return Branches(automations=lambda: others, lookup=lambda key: known.get(key.name))


def names(known: Branches, obj: ImageUpdateAutomation | None = None) -> list[str]:
    obj = obj or automation()
    plan = settings.plan(obj, source())
    return [each.metadata.name for each in known.others(obj, source(), plan)]


def test_others_are_those_that_push_to_the_branch_of_the_same_repository() -> None:
    elsewhere = automation("elsewhere", sourceRef={"name": "other"})
    alias = automation("alias", sourceRef={"name": "alias"})

    known = branches(
        automation(),
        automation("beside"),
        elsewhere,
        alias,
        other=source(f"{URL}2"),
        alias=source(),
    )

    assert names(known) == ["beside", "alias"]


@pytest.mark.parametrize(
    "other",
    [
        automation("x", branch="main"),  # what is checked out is never forced
        automation("x", branch="more"),
        automation("x", suspend=True),
        automation("x", sourceRef={"name": "gone"}),
        automation("x", git=None),
        automation(
            "x",
            git={
                "commit": {"author": {"email": "a@example.com"}},
                "push": {"branch": "images", "refspec": "refs/heads/more:refs/heads/y"},
            },
        ),
    ],
)
def test_who_does_not_push_there_does_not_count(other: ImageUpdateAutomation) -> None:
    assert names(branches(automation(), other)) == []


def test_the_branch_that_is_checked_out_is_nobodys_own() -> None:
    obj = automation(branch="main")

    assert names(branches(obj, automation("x", branch="main")), obj) == []


def is_current(known: Branches, *among: ImageUpdateAutomation, base: str = THERE) -> bool:
    plan = settings.plan(automation(), source())
    return known.is_current(source(), plan, "c1", base=base, among=among)


def pushed(commit: str, *, at: str = "2026-01-01T00:00:00Z", ran: str = "") -> Any:
    status = {
        "lastPushCommit": commit,
        "lastPushTime": at,
        "lastAutomationRunTime": ran or at,
        "observedSourceRevision": THERE,
    }
    obj = automation("beside")
    return msgspec.structs.replace(obj, status=msgspec.convert(status, type(obj.status)))


def test_a_commit_of_this_process_counts_for_what_it_was_made_for() -> None:
    known = branches()
    known.pushed(source(), settings.plan(automation(), source()), "c1", base=THERE)

    assert is_current(known)
    assert not is_current(known, base="main@sha1:c")
    assert not is_current(branches())


def test_a_commit_of_an_earlier_process_is_in_a_status() -> None:
    assert is_current(branches(), pushed("c1"))
    assert not is_current(branches(), pushed("c2"))
    assert not is_current(branches(), pushed("c1"), base="main@sha1:c")


def test_a_status_of_a_later_run_that_pushed_nothing_does_not_count() -> None:
    assert not is_current(branches(), pushed("c1", ran="2026-01-01T01:00:00Z"))


def test_what_was_pushed_is_remembered_in_bounds() -> None:
    known = branches()
    plan = settings.plan(automation(), source())
    for number in range(1100):
        known.pushed(source(), plan, f"c{number}", base=THERE)

    assert not is_current(known)
    assert known.is_current(source(), plan, "c1099", base=THERE, among=())


def test_a_key_is_that_of_the_object() -> None:
    other = msgspec.structs.replace(
        automation(), metadata=msgspec.structs.replace(automation().metadata, namespace="more")
    )

    found = branches(automation(), other).others(
        automation(), source(), settings.plan(automation(), source())
    )

    assert [ObjectKey(each.metadata.namespace, each.metadata.name) for each in found] == [
        ObjectKey("more", "app")
    ]
