"""Where commits go, by what an automation and its source say."""

from typing import Any

import msgspec
import pytest

from controllers.image import settings
from crds.image_automation import ImageUpdateAutomation
from crds.source import GitRepository
from toolkit.errors import StalledError
from toolkit.remote.git.wire import PushTarget

BASE = "b" * 40
MAIN = PushTarget(ref="refs/heads/main", expected=BASE)


def automation(**git: Any) -> ImageUpdateAutomation:
    commit = {"author": {"email": "bot@example.com"}}
    spec = {
        "interval": "1m",
        "sourceRef": {"name": "fleet"},
        "git": {"commit": commit, **git},
    }
    return msgspec.convert({"spec": spec}, ImageUpdateAutomation)


def source(**ref: str) -> GitRepository:
    spec = {"url": "https://git.example.com/fleet", "interval": "1m", "ref": ref or None}
    return msgspec.convert({"spec": spec}, GitRepository)


@pytest.mark.parametrize(
    ("git", "ref", "targets"),
    [
        ({}, {"branch": "main"}, (MAIN,)),
        ({}, {}, (PushTarget(ref="refs/heads/master", expected=BASE),)),
        ({}, {"name": "refs/heads/main"}, (MAIN,)),
        ({"checkout": {"ref": {"branch": "main"}}}, {"branch": "other"}, (MAIN,)),
        ({"push": {"branch": "main"}}, {"branch": "main"}, (MAIN,)),
        (
            {"push": {"branch": "updates"}},
            {"branch": "main"},
            (PushTarget(ref="refs/heads/updates", force=True),),
        ),
        (
            {"push": {"branch": "updates"}},
            {"tag": "v1"},
            (PushTarget(ref="refs/heads/updates", force=True),),
        ),
        (
            {"push": {"refspec": "refs/heads/main:refs/for/main"}},
            {"branch": "main"},
            (PushTarget(ref="refs/for/main", expected=BASE, force=True),),
        ),
        (
            {"push": {"branch": "main", "refspec": "refs/heads/main:refs/heads/next"}},
            {"branch": "main"},
            (MAIN, PushTarget(ref="refs/heads/next", expected=BASE)),
        ),
        (
            {"push": {"options": {"topic": "x"}}},
            {"branch": "main"},
            (MAIN,),
        ),
    ],
)
def test_commits_go_where_the_spec_says(
    git: dict[str, Any], ref: dict[str, str], targets: tuple[PushTarget, ...]
) -> None:
    assert settings.plan(automation(**git), source(**ref)).targets(base=BASE) == targets


@pytest.mark.parametrize("tip", ["", "c" * 40])
def test_a_branch_of_several_is_moved_only_from_where_it_was_seen(tip: str) -> None:
    plan = settings.plan(automation(push={"branch": "updates"}), source(branch="main"))

    (target,) = plan.targets(base=BASE, tip=tip)

    assert target == PushTarget(ref="refs/heads/updates", expected=tip)


@pytest.mark.parametrize(
    ("git", "ref", "words"),
    [
        ({}, {"tag": "v1"}, "spec.git.push.branch is missing"),
        ({}, {"commit": BASE}, "spec.git.push.branch is missing"),
        ({"push": {"refspec": "main:x"}}, {"branch": "main"}, "not the full name"),
        (
            {"push": {"refspec": "refs/heads/x:refs/heads/y"}},
            {"branch": "main"},
            "commits are made on 'refs/heads/main'",
        ),
    ],
)
def test_what_says_no_place_to_push_to_stalls(
    git: dict[str, Any], ref: dict[str, str], words: str
) -> None:
    with pytest.raises(StalledError, match=words) as refused:
        settings.plan(automation(**git), source(**ref))

    assert refused.value.reason == "InvalidSourceConfiguration"


def test_without_git_an_automation_stalls() -> None:
    spec = {"interval": "1m", "sourceRef": {"name": "fleet"}}

    with pytest.raises(StalledError, match=r"spec\.git is missing"):
        settings.plan(msgspec.convert({"spec": spec}, ImageUpdateAutomation), source())


def test_push_options_are_written_as_git_writes_them() -> None:
    plan = settings.plan(
        automation(push={"options": {"topic": "images", "wip": ""}}), source(branch="main")
    )

    assert plan.options == ("topic=images", "wip")
    assert plan.author.name == "bot@example.com"
