"""How outcomes and failures are told."""

import time

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
    error = ApplyError([_failure(str(n), f"{n}{'x' * 5000}") for n in range(100)])

    assert len(str(error)) < 25_000
    assert str(error).endswith("and 88 more")
    assert len(error.failures) == 100


def _refusal(team: str, *, source: str = "fleet", field: str = "spec.sourceRef") -> Failure:
    message = (
        f"{field}: can't access 'GitRepository/platform/{source}', no ReferenceGrant in namespace "
        f"'platform' lets a Kustomization of namespace '{team}' refer to it; to allow it, apply: "
        f'{{metadata: {{name: "{team}-1", namespace: "platform"}}}}'
    )
    ref = ObjectRef(
        GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"), team, "app"
    )
    return Failure(ref=ref, step="dry-run", reason="Forbidden", message=message)


def test_many_failures_that_differ_in_names_alone_are_told_once() -> None:
    failures = [_refusal(f"team-{n:03}", source=f"s{n}") for n in range(163)]

    message = str(ApplyError([*failures, _failure("a")]))

    first, other = message.split("\n")
    assert first == (
        "163 objects failed for the same reason (Kustomization/team-000/app, "
        "Kustomization/team-001/app, Kustomization/team-002/app and 160 more), the first: "
        f"{failures[0]}"
    )
    assert other == str(_failure("a"))
    assert len(message) < 1000


def test_failures_of_other_causes_are_told_apart() -> None:
    fields = ("spec.sourceRef", "spec.dependsOn[0]")
    failures = [_refusal(f"team-{n}", field=fields[n % 2]) for n in range(8)]

    lines = str(ApplyError(failures)).split("\n")

    assert [line.split(" objects")[0] for line in lines] == ["4", "4"]


def test_positions_in_lists_are_no_other_cause() -> None:
    failures = [_refusal(f"team-{n}", field=f"spec.dependsOn[{n}]") for n in range(8)]

    assert str(ApplyError(failures)).startswith("8 objects failed for the same reason")


def test_few_failures_are_told_one_by_one() -> None:
    failures = [_refusal(f"team-{n}") for n in range(3)]

    assert str(ApplyError(failures)) == "\n".join(map(str, failures))


def test_time_for_a_message_grows_with_its_length_only() -> None:
    # Server-side apply quotes the name of an unknown field as it is, without escapes.
    began = time.process_time()

    pattern = _failure(
        "a", message='."' + '\\"' * 100_000 + ": field not declared in schema"
    ).pattern

    assert pattern == ("Deployment", "dry-run", "Invalid", ".*")
    assert time.process_time() - began < 1
