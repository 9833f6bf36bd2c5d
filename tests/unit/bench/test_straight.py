"""Reviews that the bench sends by itself are those that the gate understands and trusts."""

import base64
import ssl

import pytest

from bench import straight
from bench.admission import VALIDATING, Entry, samples
from bench.images import Images
from tests.fakes.gateserver import PATIENT, Port, listening
from toolkit.errors import AccessDeniedError, PenstockError
from toolkit.objects import GroupVersionKind, Json
from webhooks import review
from webhooks.plugin import Answer
from webhooks.request import Request

MADE = Images(tagged="r.test/a:v1", pinned="r.test/a@sha256:00", unsigned="r.test/b:v1")
SAMPLE = samples(MADE)[0]
STORED: Json = {**SAMPLE.body, "metadata": {"name": "bench", "namespace": "a", "uid": "u"}}


def webhook(port: Port) -> Entry:
    (root,) = port.trust.get_ca_certs(binary_form=True)
    config = {
        "url": f"https://127.0.0.1:{port.port}/admit/both",
        "caBundle": base64.b64encode(ssl.DER_cert_to_PEM_cert(root).encode()).decode(),
    }
    hook = {"name": "test.admission.penstock.dev", "clientConfig": config, "timeoutSeconds": 10}
    return Entry(gvk=VALIDATING, webhook=hook)


def test_rows_name_samples_that_there_are() -> None:
    assert {name for _, _, name in straight.ROWS} <= {sample.name for sample in samples(MADE)}


def test_a_review_is_of_an_object_that_is_created_each_of_another() -> None:
    first, second = (
        review.decode(straight.body(STORED, SAMPLE, number), deadline=1) for number in (1, 2)
    )

    gvk = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
    assert (first.operation, first.gvk, first.resource) == ("CREATE", gvk, "kustomizations")
    assert (first.namespace, first.name, first.old) == ("a", "bench-00001", None)
    assert first.object is not None
    assert first.object["metadata"]["name"] == first.name != second.name
    assert first.object["spec"] == STORED["spec"]
    assert first.uid != second.uid


async def test_reviews_keep_their_connection() -> None:
    async with listening(PATIENT) as port, straight.reached(webhook(port), "test") as gate:
        took = [await gate.review(straight.body(STORED, SAMPLE, n)) for n in range(3)]

        assert len(port.endpoint.connections) == 1
    assert all(each > 0 for each in took)


async def test_an_object_that_is_denied_is_not_measured() -> None:
    async def no(_: Request) -> Answer:
        raise AccessDeniedError("not from there")

    async with listening(PATIENT, no) as port, straight.reached(webhook(port), "test") as gate:
        with pytest.raises(PenstockError, match="not from there"):
            await gate.review(straight.body(STORED, SAMPLE, 1))
