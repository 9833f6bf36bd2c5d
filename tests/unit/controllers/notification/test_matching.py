"""Which events an Alert selects, and what a service receives."""

import msgspec
import pytest

from controllers.notification.events import event, matching
from controllers.notification.events.duplicates import Duplicates
from controllers.notification.events.event import Event, EventError
from crds.notification import Alert

BODY = {
    "involvedObject": {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "namespace": "apps",
        "name": "shop",
        "uid": "1",
    },
    "severity": "info",
    "timestamp": "2026-11-25T16:00:00Z",
    "message": "Reconciliation finished",
    "reason": "ReconciliationSucceeded",
    "reportingController": "kustomize-controller",
}


def happened(**fields: object) -> Event:
    return event.parse(msgspec.json.encode({**BODY, **fields}))


def alert(**spec: object) -> Alert:
    sources = [{"kind": "Kustomization", "name": "*"}]
    return msgspec.convert(
        {
            "metadata": {"name": "all", "namespace": "apps"},
            "spec": {"providerRef": {"name": "p"}, "eventSources": sources, **spec},
        },
        Alert,
    )


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({"kind": "Kustomization", "name": "shop"}, True),
        ({"kind": "Kustomization", "name": "*"}, True),
        ({"kind": "Kustomization", "name": "other"}, False),
        ({"kind": "HelmRelease", "name": "*"}, False),
        ({"kind": "Kustomization", "name": "*", "namespace": "apps"}, True),
        ({"kind": "Kustomization", "name": "*", "namespace": "prod"}, False),
    ],
)
def test_an_event_is_selected_by_kind_name_and_namespace(
    selector: dict[str, str], *, selected: bool
) -> None:
    (source,) = alert(eventSources=[selector]).spec.event_sources

    assert matching.selects(source, "apps", happened()) is selected


@pytest.mark.parametrize(
    ("spec", "fields", "wanted"),
    [
        ({}, {}, True),
        ({}, {"severity": "trace"}, False),
        ({"eventSeverity": "error"}, {}, False),
        ({"eventSeverity": "error"}, {"severity": "error"}, True),
        ({"inclusionList": ["finished$"]}, {}, True),
        ({"inclusionList": ["^finished"]}, {}, False),
        ({"exclusionList": ["Reconciliation"]}, {}, False),
        ({"inclusionList": ["fin"], "exclusionList": ["ished"]}, {}, False),
        ({"inclusionList": ["(?=x)"]}, {}, False),
        ({"exclusionList": ["(?=x)"]}, {}, True),
    ],
)
def test_severity_and_patterns_decide(
    spec: dict[str, object], fields: dict[str, object], *, wanted: bool
) -> None:
    assert matching.wants(alert(**spec), happened(**fields)) is wanted


def test_a_pattern_that_backtracks_elsewhere_takes_linear_time() -> None:
    assert not matching.wants(alert(inclusionList=["(a+)+$"]), happened(message="a" * 30_000 + "b"))


def test_metadata_loses_its_prefixes_and_the_controller_has_the_last_word() -> None:
    group = "kustomize.toolkit.fluxcd.io"
    told = happened(
        metadata={
            f"{group}/revision": "main@sha1:1",
            f"{group}/token": "x",
            "event.toolkit.fluxcd.io/revision": "mine",
            "event.toolkit.fluxcd.io/team": "web",
            "other.example.com/key": "lost",
        }
    )

    found = matching.combined(
        alert(summary="s", eventMetadata={"team": "none", "cluster": "prod"}), told
    )

    assert found == {
        "revision": "main@sha1:1",
        "team": "web",
        "cluster": "prod",
        "summary": "s",
    }


def test_nobody_but_a_controller_tells_who_signed() -> None:
    """A tenant writes annotations of an object, and Alerts."""
    forged = {
        f"{prefix}/{name}": "the boss"
        for prefix in ("event.toolkit.fluxcd.io", "apps")
        for name in ("account", "author", "changes", "verified")
    }
    metadata = {**forged, "kustomize.toolkit.fluxcd.io/account": "apps/deployer"}

    found = matching.combined(
        alert(eventMetadata={"verified": "the boss"}), happened(metadata=metadata)
    )

    assert found == {"account": "apps/deployer"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cloning https://me:hunter2@git.example.com/x", "cloning https://*****@git.example.com/x"),
        ("Authorization: Bearer abcdef.ghijkl", "Authorization: Bearer *****"),
        ("got password=hunter2 from it", "got password=***** from it"),
        ("token ghp_0123456789abcdef was refused", "token ***** was refused"),
        ("failed to get secret: not found", "failed to get secret: not found"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    told = matching.hidden(happened(message=text, metadata={"apps/note": text}))

    assert told.message == shown
    assert told.metadata == {"apps/note": shown}
    assert matching.combined(alert(eventMetadata={"note": text}), told)["note"] == shown


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"involvedObject": ' * 50_000,
        msgspec.json.encode({**BODY, "severity": "fatal"}),
        msgspec.json.encode({**BODY, "involvedObject": {"kind": "", "namespace": "", "name": ""}}),
        b"{" + b" " * (event.MOST_BYTES + 1) + b"}",
    ],
)
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(EventError):
        event.parse(body)


def test_a_message_is_cut_and_metadata_is_bounded() -> None:
    found = happened(message="x" * 50_000, metadata={str(n): "v" * 9000 for n in range(100)})

    assert len(found.message) == event.LONGEST_MESSAGE
    assert len(found.metadata or {}) == 64
    assert all(len(value) == 2048 for value in (found.metadata or {}).values())


class Clock:
    """A time that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_event_is_told_once_within_the_interval() -> None:
    clock = Clock()
    told = Duplicates(300, clock)
    first = told.seen(happened())
    again = told.seen(happened())
    other = told.seen(happened(message="another"))
    clock.now = 301

    assert (first, again, other, told.seen(happened())) == (False, True, False, False)


def test_the_second_of_two_failures_is_told_after_a_success() -> None:
    told = Duplicates(300, Clock())
    failure, success = happened(severity="error", message="x"), happened(message="y")

    assert [told.seen(each) for each in (failure, failure, success, failure)] == [
        False,
        True,
        False,
        False,
    ]


def test_a_remediation_does_not_end_a_failure() -> None:
    told = Duplicates(300, Clock())
    failure = happened(severity="error", message="x", reason="InstallFailed")
    remediation = happened(message="y", reason="UninstallSucceeded")

    sent = [told.seen(each) for each in (failure, remediation) * 3]

    assert sent == [False, False, True, True, True, True]


def test_a_state_that_changes_for_ever_is_told_a_few_times() -> None:
    clock = Clock()
    told = Duplicates(300, clock)
    failure, success = happened(severity="error", message="x"), happened(message="y")

    sent = [not told.seen(each) for _ in range(20) for each in (failure, success)]
    clock.now = 301

    assert sum(sent) == 6
    assert sent[:6] == [True] * 6
    assert not told.seen(failure)


def test_an_event_that_was_not_kept_may_come_again() -> None:
    told = Duplicates(300, Clock())
    told.seen(happened())

    told.forget(happened())

    assert not told.seen(happened())
