"""A record of Helm's is known again by the digest that Flux gave it."""

import hashlib
import json
from typing import Any

import msgspec
import pytest

from crds import helm_actions
from toolkit.release import record

Json = dict[str, Any]

WRITTEN: Json = {
    "name": "shop",
    "info": {
        "first_deployed": "2026-01-02T03:04:05.123456789+02:00",
        "last_deployed": "2026-01-02T03:04:05.123456789+02:00",
        "deleted": "",
        "description": "Install complete",
        "status": "deployed",
        "notes": "open <https://shop>",
    },
    "chart": {
        "metadata": {"name": "shop", "version": "1.2.3", "apiVersion": "v2", "appVersion": "7"},
        "templates": [],
    },
    "config": {"big": 1, "image": {"tag": "v1"}},
    "manifest": "---\nkind: ConfigMap\n",
    "hooks": [
        {
            "name": "migrate",
            "kind": "Job",
            "events": ["pre-upgrade"],
            "last_run": {"started_at": "", "completed_at": "", "phase": ""},
        },
        {
            "name": "smoke",
            "kind": "Pod",
            "events": ["test"],
            "last_run": {
                "started_at": "2026-01-02T03:04:05Z",
                "completed_at": "2026-01-02T03:04:06.5Z",
                "phase": "Succeeded",
            },
        },
    ],
    "version": 3,
    "namespace": "prod",
}


def read(**changes: Any) -> record.Record:
    return record.decode(json.dumps({**WRITTEN, **changes}, separators=(",", ":")).encode())


def sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_the_digest_is_that_of_flux() -> None:
    # helm-controller v1.6.3, internal/release/digest_test.go
    assert record.digest_of(record.decode(b'{"name":"foo"}')) == (
        "sha256:f1498f27a16a09cd7e1ee610d924df065c03d30035638babc95dd9a8d412ce4d"
    )


def test_the_digest_is_over_what_is_observed_as_go_writes_it() -> None:
    observed = (
        '{"name":"shop","version":3,"info":{'
        '"first_deployed":"2026-01-02T03:04:05.123456789+02:00",'
        '"last_deployed":"2026-01-02T03:04:05.123456789+02:00",'
        '"description":"Install complete","status":"deployed",'
        '"notes":"open \\u003chttps://shop\\u003e"},'
        '"chartMetadata":{"name":"shop","version":"1.2.3","apiVersion":"v2","appVersion":"7"},'
        '"config":{"big":1,"image":{"tag":"v1"}},"manifest":"---\\nkind: ConfigMap\\n",'
        '"hooks":[{"name":"migrate","kind":"Job","events":["pre-upgrade"],'
        '"last_run":{"phase":""}}],"namespace":"prod"'
    )

    assert record.digest_of(read()) == sha256(observed + "}\n")
    assert record.digest_of(read(), oci_digest="sha256:0") == sha256(
        observed + ',"ociDigest":"sha256:0"}\n'
    )


def test_no_values_and_no_hooks_are_null() -> None:
    ways: list[Json] = [
        {"config": {}, "hooks": []},
        {"config": None, "hooks": WRITTEN["hooks"][1:]},
    ]

    for nothing in ways:
        assert record.digest_of(read(**nothing)) == record.digest_of(read(config=None, hooks=[]))


@pytest.mark.parametrize(
    "changes", [{"manifest": ""}, {"version": 4}, {"config": {"big": 2}}, {"namespace": "x"}]
)
def test_another_record_does_not_match(changes: Json) -> None:
    kept = record.snapshot(read())

    assert record.matches(kept, read())
    assert not record.matches(kept, read(**changes))


def test_a_test_run_changes_nothing() -> None:
    hooks = [WRITTEN["hooks"][0], {**WRITTEN["hooks"][1], "last_run": {"phase": "Failed"}}]

    assert record.matches(record.snapshot(read()), read(hooks=hooks))


def test_a_snapshot_of_an_older_controller_is_not_compared() -> None:
    kept = msgspec.structs.replace(record.snapshot(read()), api_version="v1", digest="sha256:0")

    assert record.matches(kept, read())


def test_a_snapshot_tells_the_release() -> None:
    kept = record.snapshot(read(), action="upgrade", oci_digest="sha256:1")

    assert msgspec.to_builtins(kept) == {
        "apiVersion": "v2",
        "digest": record.digest_of(read(), oci_digest="sha256:1"),
        "name": "shop",
        "namespace": "prod",
        "version": 3,
        "status": "deployed",
        "action": "upgrade",
        "chartName": "shop",
        "chartVersion": "1.2.3",
        "appVersion": "7",
        "configDigest": sha256("big: 1\nimage:\n  tag: v1\n"),
        "firstDeployed": "2026-01-02T01:04:05Z",
        "lastDeployed": "2026-01-02T01:04:05Z",
        "ociDigest": "sha256:1",
    }


def test_the_outcome_of_tests_is_told_by_name() -> None:
    (smoke,) = record.tested(read(), ()).items()

    assert smoke[0] == "smoke"
    assert msgspec.to_builtins(smoke[1]) == {
        "lastStarted": "2026-01-02T03:04:05Z",
        "lastCompleted": "2026-01-02T03:04:06Z",
        "phase": "Succeeded",
    }


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], {"smoke"}),
        ([("smoke", False)], {"smoke"}),
        ([("other", False)], set()),
        ([("smoke", True)], set()),
        ([("smoke", False), ("smoke", True)], set()),
        ([("other", True)], {"smoke"}),
    ],
)
def test_filters_select_tests(filters: list[tuple[str, bool]], expected: set[str]) -> None:
    chosen = [helm_actions.TestFilter(name=name, exclude=exclude) for name, exclude in filters]

    assert set(record.tested(read(), chosen)) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"config": []},
        {"config": "s3cret"},
        {"chart": {"metadata": {"name": 1}}},
        {"chart": {"metadata": []}},
        {"info": {"first_deployed": "yesterday"}},
        {"info": {"first_deployed": "0001-01-01T00:00:00+23:00"}},
        {"hooks": [{"last_run": {"started_at": "s3cret"}}]},
        {"version": "1"},
    ],
)
def test_what_is_no_record_is_refused_without_its_content(changes: Json) -> None:
    with pytest.raises(record.RecordError) as caught:
        read(**changes)

    assert caught.value.reason == "StateError"
    assert str(caught.value) == "the record of the release in Helm's storage cannot be read"


def test_values_that_are_nested_too_deep_are_refused() -> None:
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    found = msgspec.structs.replace(read(), config=msgspec.Raw(deep))

    with pytest.raises(record.RecordError, match="the values of the release"):
        _ = found.values
