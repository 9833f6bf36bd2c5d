"""How outcomes and failures are told."""

from toolkit.apply.changes import ApplyError, Change, ChangeSet, Failure
from toolkit.objects import GroupVersionKind, ObjectRef


def _ref(name: str) -> ObjectRef:
    return ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "shop", name)


def _failure(name: str, message: str = "no", reason: str = "Invalid") -> Failure:
    return Failure(ref=_ref(name), step="dry-run", reason=reason, message=message)


def test_lines_leave_out_what_stayed() -> None:
    changes = ChangeSet(
        entries=(
            Change(ref=_ref("a"), action="created"),
            Change(ref=_ref("b"), action="unchanged"),
            Change(ref=_ref("c"), action="skipped"),
        )
    )

    assert changes.lines == ("Deployment/shop/a created", "Deployment/shop/c skipped")
    assert changes.refs == (_ref("a"), _ref("b"), _ref("c"))
    assert changes.known.keys() == {_ref("a").identity, _ref("b").identity}


def test_skipped_objects_alone_are_nothing_to_announce() -> None:
    skipped = Change(ref=_ref("a"), action="skipped")

    assert not ChangeSet(entries=(skipped,)).changed
    assert ChangeSet(entries=(skipped, Change(ref=_ref("b"), action="configured"))).changed


def test_every_failure_is_told_on_its_line() -> None:
    error = ApplyError([_failure("a"), _failure("b", reason="")])

    assert str(error) == (
        "Deployment/shop/a dry-run failed (Invalid): no\nDeployment/shop/b dry-run failed: no"
    )


def test_the_message_is_bounded() -> None:
    error = ApplyError([_failure(str(n), "x" * 5000) for n in range(100)])

    assert len(str(error)) < 25_000
    assert str(error).endswith("and 80 more")
    assert len(error.failures) == 100
