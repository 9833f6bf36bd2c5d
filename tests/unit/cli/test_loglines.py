"""Log lines: Flux's keys in, Flux's form out."""

import json
from datetime import UTC, datetime

import pytest

from cli import loglines

RECONCILED = json.dumps(
    {
        "ts": "2026-01-01T12:00:00.5Z",
        "level": "info",
        "msg": "Reconciliation finished in 1.2s, next run in 10m0s",
        "controllerKind": "Kustomization",
        "name": "apps",
        "namespace": "flux-system",
    }
)


def parsed(text: str) -> loglines.Line:
    line = loglines.parse(text)
    assert line is not None
    return line


def test_line_is_printed_with_time_level_and_object() -> None:
    assert loglines.render(parsed(RECONCILED)) == (
        "2026-01-01T12:00:00.5Z info Kustomization/apps.flux-system - "
        "Reconciliation finished in 1.2s, next run in 10m0s"
    )


def test_error_is_printed_after_the_message() -> None:
    text = json.dumps({"ts": "t", "level": "error", "msg": "apply failed", "error": "forbidden"})

    assert loglines.render(parsed(text)) == "t error apply failed: forbidden"


def test_a_line_about_no_pass_tells_its_own_fields() -> None:
    text = json.dumps(
        {
            "ts": "t",
            "level": "info",
            "msg": "denied",
            "plugin": "tenancy",
            "object": "Kustomization/a/b",
            "user": "Ada Lovelace",
            "dryRun": False,
            "at": ["spec.url"],
        }
    )

    assert loglines.render(parsed(text)) == (
        't info denied plugin=tenancy object=Kustomization/a/b user="Ada Lovelace" dryRun=false'
    )


def test_a_request_tells_who_asked_for_what() -> None:
    event = {
        "verb": "list",
        "requestURI": "/apis/gitops.penstock.dev/v1alpha1/artifacts",
        "user": {"username": "ada", "groups": ["developers"]},
        "responseStatus": {"code": 403},
    }
    text = json.dumps({"ts": "t", "level": "info", "msg": "audit", "audit": event})

    assert loglines.render(parsed(text)) == (
        "t info audit verb=list requestURI=/apis/gitops.penstock.dev/v1alpha1/artifacts code=403 "
        "username=ada"
    )


@pytest.mark.parametrize("text", ["Traceback (most recent call last):", "[1, 2]", '"text"'])
def test_text_that_is_no_object_is_passed_through(text: str) -> None:
    assert loglines.render(parsed(text)) == text


def test_empty_line_is_none() -> None:
    assert loglines.parse("  \n") is None


@pytest.mark.parametrize(
    ("chosen", "passes"),
    [
        (loglines.Filter(), True),
        (loglines.Filter(kind="kustomization"), True),
        (loglines.Filter(kind="GitRepository"), False),
        (loglines.Filter(name="apps", namespace="flux-system", level="info"), True),
        (loglines.Filter(name="infra"), False),
        (loglines.Filter(namespace="default"), False),
        (loglines.Filter(level="error"), False),
        (loglines.Filter(since=datetime(2026, 1, 1, 11, 59, tzinfo=UTC)), True),
        (loglines.Filter(since=datetime(2026, 1, 1, 12, 1, tzinfo=UTC)), False),
    ],
)
def test_filter_lets_through_what_was_asked_for(chosen: loglines.Filter, *, passes: bool) -> None:
    assert chosen.passes(parsed(RECONCILED)) is passes


def test_line_without_a_time_is_not_recent() -> None:
    since = loglines.Filter(since=datetime(2026, 1, 1, tzinfo=UTC))

    assert not since.passes(parsed("a traceback"))
