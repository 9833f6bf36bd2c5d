"""What the admission bench makes of the gate's configuration, and what it asks with."""

import pytest

from bench.admission import ASKED, VALIDATING, Entry, samples
from bench.images import Images
from toolkit.objects import Json

MADE = Images(tagged="r.test/a:v1", pinned="r.test/a@sha256:00", unsigned="r.test/b:v1")
WEBHOOK: Json = {
    "name": "references.admission.penstock.dev",
    "rules": [{"resources": ["kustomizations"]}, {"resources": ["artifactgenerators"]}],
    "namespaceSelector": {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
        ]
    },
}


@pytest.fixture
def entry() -> Entry:
    return Entry(gvk=VALIDATING, webhook=WEBHOOK)


def test_webhook_is_told_by_its_plugin(entry: Entry) -> None:
    concerned = {sample.name for sample in samples(MADE) if entry.concerns(sample.resource)}

    assert entry.name == "references"
    assert concerned == {"kustomizations"}


def test_copy_is_asked_about_one_namespace_and_leaves_out_what_the_original_does(
    entry: Entry,
) -> None:
    mine = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [ASKED]}

    narrowed = entry.narrowed()

    before = WEBHOOK["namespaceSelector"]["matchExpressions"]
    assert narrowed["namespaceSelector"]["matchExpressions"] == [*before, mine]
    assert mine not in before


def test_webhook_for_every_namespace_is_asked_about_one(entry: Entry) -> None:
    everywhere = {key: value for key, value in WEBHOOK.items() if key != "namespaceSelector"}

    narrowed = Entry(gvk=entry.gvk, webhook=everywhere).narrowed()

    assert len(narrowed["namespaceSelector"]["matchExpressions"]) == 1


def test_samples_are_of_kinds_and_images_of_their_own() -> None:
    found = samples(MADE)
    images = [
        each.body["spec"]["containers"][0]["image"] for each in found if each.resource == "pods"
    ]

    assert len({each.name for each in found}) == len(found)
    assert len(set(images)) == len(images) == 3
    assert MADE.unsigned not in images
