"""A conversion review is answered whole, or refused by the names of what is at fault."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


async def test_metadata_keeps_all_but_annotations(conversions: Conversions) -> None:
    obj = repository("fleet")

    answer = await ask(conversions, review(obj))

    metadata = answer["convertedObjects"][0]["metadata"]
    assert {k: v for k, v in metadata.items() if k != "annotations"} == obj["metadata"]


async def test_one_bad_object_fails_the_review_and_is_named(conversions: Conversions) -> None:
    objects = [repository("good"), repository("bad", spec=[]), repository("worse", status=1)]

    answer = await ask(conversions, review(*objects))

    assert answer["result"]["status"] == "Failure"
    assert answer["result"]["message"] == (
        "GitRepository/apps/bad: spec: must be an object, not a list; "
        "GitRepository/apps/worse: status: must be an object, not a number"
    )
    assert answer["convertedObjects"] == []


async def test_of_many_failures_the_first_are_named(conversions: Conversions) -> None:
    answer = await ask(conversions, review(*(repository(f"r{i}", spec=1) for i in range(500))))

    assert answer["result"]["message"].endswith("and 495 more")


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

    answer = json.loads(conversions.answer(json.dumps(review(*objects)).encode()))

    result = answer["response"]["result"]["status"]
    assert result in {"Success", "Failure"}
    assert len(answer["response"]["convertedObjects"]) == (result == "Success")
