"""Who wrote the spec of an automation is recorded, whatever else users and controllers write."""

import msgspec
import pytest

from toolkit.kube.reviews import User
from toolkit.objects import Json
from toolkit.policy import authorship
from toolkit.policy.authorship import AUTHOR

ALICE = User(name="alice", groups=("dev", "system:authenticated"))
BOB = User(name="bob")


def automation(note: str | None = None, **spec: str) -> Json:
    annotations = {"other": "kept"} | ({AUTHOR: note} if note is not None else {})
    return {
        "apiVersion": "image.toolkit.fluxcd.io/v1",
        "kind": "ImageUpdateAutomation",
        "metadata": {"name": "app", "namespace": "team", "annotations": annotations},
        "spec": {"interval": "1m", "sourceRef": {"name": "fleet"}, **spec},
    }


def by(user: User, obj: Json, old: Json | None = None) -> Json:
    made = authorship.attributed(obj, old, user)
    assert made["metadata"]["annotations"]["other"] == "kept"
    assert made["spec"] == obj["spec"]
    return made


WRITTEN = by(ALICE, automation())
NOTE = WRITTEN["metadata"]["annotations"][AUTHOR]


def test_the_author_of_a_new_object_is_recorded_whatever_it_says() -> None:
    for note in (None, "", "me", NOTE, '{"user": "admin"}'):
        assert authorship.recorded(by(BOB, automation(note))) == BOB
    assert authorship.recorded(WRITTEN) == ALICE


def test_who_changes_the_spec_is_the_author() -> None:
    for note in (None, NOTE, "me"):
        assert authorship.recorded(by(BOB, automation(note, update="x"), WRITTEN)) == BOB


@pytest.mark.parametrize("note", [None, "", NOTE])
def test_whoever_writes_anything_else_leaves_the_record(note: str | None) -> None:
    for changes in ({}, {"interval": "5m"}, {"suspend": "true"}):
        assert authorship.recorded(by(BOB, automation(note, **changes), WRITTEN)) == ALICE


@pytest.mark.parametrize("note", ["me", "bob", '{"user": "admin"}', "{", '{"user": "alice"}'])
def test_whoever_sets_the_record_becomes_the_author(note: str) -> None:
    assert authorship.recorded(by(BOB, automation(note), WRITTEN)) == BOB
    assert authorship.recorded(by(BOB, automation(note), automation())) == BOB


def test_an_object_without_a_record_stays_so_until_its_spec_is_written() -> None:
    obj = automation()

    assert authorship.attributed(obj, automation(), BOB) is obj
    assert authorship.recorded(obj) is None


@pytest.mark.parametrize(
    "note", ["x", "{", "[]", '{"user": 1}', '{"user": "a", "more": 1}', "[" * 9000, '{"a": "b"}']
)
def test_a_malformed_record_names_nobody(note: str) -> None:
    assert authorship.recorded(automation(note)) == User(name="")


def test_very_many_groups_are_recorded_in_part() -> None:
    for groups in (tuple(f"g{n}" for n in range(2000)), tuple("ü" * 500 for _ in range(400))):
        many = User(name="alice", groups=groups)

        found = authorship.recorded(by(many, automation()))

        assert found is not None
        assert found.name == "alice"
        assert 10 < len(found.groups) < len(groups)
        assert found.groups == groups[: len(found.groups)]


def test_the_record_is_json_of_the_user_alone() -> None:
    assert msgspec.json.decode(NOTE) == {"user": "alice", "groups": ["dev", "system:authenticated"]}
