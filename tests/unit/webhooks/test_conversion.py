"""A conversion review is answered whole, or refused by the names of what is at fault."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

import crds
from toolkit.errors import PenstockError
from webhooks.conversion import Conversions

GROUP = "source.toolkit.fluxcd.io"


@pytest.fixture
def conversions() -> Conversions:
    return Conversions(crds.KINDS)


def repository(name: str, **more: Any) -> Any:
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "GitRepository",
        "metadata": {"name": name, "namespace": "apps", "uid": "u", "generation": 3},
        "spec": {"interval": "5m", "timeout": "1h", "url": "https://example.com"},
    } | more


def review(*objects: Any, to: str = f"{GROUP}/v1") -> Any:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "r-1", "desiredAPIVersion": to, "objects": list(objects)},
    }


async def ask(conversions: Conversions, body: Any) -> Any:
    return json.loads(await conversions.convert(json.dumps(body).encode()))["response"]


async def test_all_objects_are_converted_in_order(conversions: Conversions) -> None:
    names = [f"r{i}" for i in range(1000)]

    answer = await ask(conversions, review(*(repository(name) for name in names)))

    assert (answer["uid"], answer["result"]) == ("r-1", {"status": "Success"})
    found = answer["convertedObjects"]
    assert [each["metadata"]["name"] for each in found] == names
    assert {(each["apiVersion"], each["spec"]["timeout"]) for each in found} == {
        (f"{GROUP}/v1", "60m")
    }


async def test_the_answer_has_the_metadata_that_api_servers_read(conversions: Conversions) -> None:
    obj = repository("fleet")
    obj["metadata"] |= {
        "labels": {"team": "a"},
        "managedFields": [{"manager": "kubectl"}],
        "finalizers": ["x"],
    }

    answer = await ask(conversions, review(obj))

    metadata = answer["convertedObjects"][0]["metadata"]
    assert {k: v for k, v in metadata.items() if k != "annotations"} == {
        "name": "fleet",
        "namespace": "apps",
        "uid": "u",
        "labels": {"team": "a"},
    }


async def test_one_bad_object_fails_the_review_and_is_named(conversions: Conversions) -> None:
    objects = [repository("good"), repository("bad", spec=[]), repository("worse", status=1)]

    answer = await ask(conversions, review(*objects))

    assert answer["result"]["status"] == "Failure"
    assert answer["result"]["message"] == (
        "GitRepository/apps/bad: spec: must be an object, not a list: write its fields below it; "
        "GitRepository/apps/worse: status: must be an object, not a number: write its fields"
        " below it"
    )
    assert answer["convertedObjects"] == []


async def test_of_many_failures_the_first_are_named(conversions: Conversions) -> None:
    answer = await ask(conversions, review(*(repository(f"r{i}", spec=1) for i in range(500))))

    assert answer["result"]["message"].endswith("and 495 more")


async def test_a_failure_is_logged_once_and_counted_each_time(
    conversions: Conversions, caplog: pytest.LogCaptureFixture
) -> None:
    before = _counted("GitRepository")
    bad = repository("bad", spec=["s3cr3t"])
    bad["metadata"]["labels"] = "s3cr3t"

    for _ in range(3):
        await ask(conversions, review(repository("good"), bad))
    await ask(conversions, review(bad, to=f"{GROUP}/v1beta2"))

    once, other = (record.__dict__ for record in caplog.records)
    told = {key: once[key] for key in ("kind", "namespace", "object", "from", "to", "error")}
    assert told == {
        "kind": "GitRepository",
        "namespace": "apps",
        "object": "bad",
        "from": f"{GROUP}/v1beta1",
        "to": f"{GROUP}/v1",
        "error": "GitRepository/apps/bad: spec: must be an object, not a list: write its fields"
        " below it",
    }
    assert other["to"] == f"{GROUP}/v1beta2"
    assert "s3cr3t" not in str((once, other))
    assert _counted("GitRepository") == before + 4


async def test_strangers_neither_flood_the_log_nor_name_metrics(
    conversions: Conversions, caplog: pytest.LogCaptureFixture
) -> None:
    before = _counted("unknown")

    await ask(conversions, review(*({"kind": f"K{i}", "apiVersion": 3} for i in range(999)), None))

    assert len(caplog.records) == 5
    assert _counted("unknown") == before + 1000


def _counted(kind: str) -> float:
    labels = {"kind": kind}
    return REGISTRY.get_sample_value("penstock_conversion_failures_total", labels) or 0.0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        json.dumps(review() | {"kind": "AdmissionReview"}).encode(),
        json.dumps(review() | {"apiVersion": "apiextensions.k8s.io/v1beta1"}).encode(),
        json.dumps(review() | {"request": {"uid": "u"}}).encode(),
    ],
)
async def test_what_is_no_review_is_refused(conversions: Conversions, body: bytes) -> None:
    with pytest.raises(PenstockError, match="no ConversionReview"):
        await conversions.convert(body)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["spec", "status", "metadata", "kind"]), inner)
        ),
        max_leaves=8,
    )
)
def test_whatever_objects_come_there_is_an_answer(value: Any) -> None:
    conversions = Conversions(crds.KINDS)
    objects = [repository("r") | value if isinstance(value, dict) else value]

    body, _ = conversions.answer(json.dumps(review(*objects)).encode())

    answer = json.loads(body)
    result = answer["response"]["result"]["status"]
    assert result in {"Success", "Failure"}
    assert len(answer["response"]["convertedObjects"]) == (result == "Success")
