"""An artifact as an object: signers, users, labels; and the columns that show them."""

import msgspec
import pytest

from apiserver.artifacts import columns
from apiserver.artifacts.held import Held
from apiserver.artifacts.model import Artifact
from apiserver.artifacts.observed import Consumer, Use
from apiserver.artifacts.shown import shown
from crds.meta import VERIFIED
from tests.unit.apiserver.artifacts.scene import REVISION, held
from toolkit.artifact.store import Owner
from toolkit.objects import Json

FACT = "verify.penstock.dev/"


def consumer(name: str, *, namespace: str = "apps", applied: str = "", tried: str = "") -> Consumer:
    use = Use(source=("GitRepository", "apps", "web"), applied=applied, attempted=tried)
    return Consumer(
        api_version="kustomize.toolkit.fluxcd.io/v1",
        kind="Kustomization",
        namespace=namespace,
        name=name,
        revision=1,
        uses=(use,),
    )


def cell(name: str, obj: Json) -> str | int:
    (column,) = [each for each in columns.COLUMNS if each.name == name]
    return column.cell(obj)


@pytest.mark.parametrize(
    "artifact",
    [
        held(),
        held(revision="", others=("x",), expires="2026-01-01T00:01:00Z", backend=""),
        held(metadata={VERIFIED: "by Ada", f"{FACT}identity": "Ada", f"{FACT}signed-at": "x"}),
    ],
)
def test_an_object_is_as_the_schema_says(artifact: Held) -> None:
    users = [consumer("a", applied=REVISION), consumer("b", namespace="x", applied=REVISION)]

    obj = shown(artifact, users)

    obj["metadata"].pop("creationTimestamp")
    assert msgspec.to_builtins(msgspec.convert(obj, Artifact))["spec"] == obj["spec"]
    known = set(msgspec.to_builtins(msgspec.convert(obj, Artifact))["status"])
    assert set(obj["status"]) <= known | {"current"}


def test_tag_and_commit_have_a_signer_each() -> None:
    artifact = held(
        metadata={
            VERIFIED: "verified signature of tag and commit",
            f"{FACT}method": "git",
            f"{FACT}identity": "Ada, Bob",
            f"{FACT}fingerprint": "SHA256:a, SHA256:b",
        }
    )

    verification = shown(artifact, [])["status"]["verification"]

    assert verification["signers"] == [
        {"identity": "Ada", "fingerprint": "SHA256:a"},
        {"identity": "Bob", "fingerprint": "SHA256:b"},
    ]
    assert cell("Verified", shown(artifact, [])) == "Ada, Bob"


def test_a_name_with_a_comma_is_one_signer() -> None:
    artifact = held(
        metadata={
            VERIFIED: "x",
            f"{FACT}method": "notation",
            f"{FACT}identity": "CN=release, O=Acme",
            f"{FACT}issuer": "CN=Acme CA",
            f"{FACT}fingerprint": "SHA256:a",
            f"{FACT}policy": "strict",
        }
    )

    verification = shown(artifact, [])["status"]["verification"]

    assert verification["signers"] == [
        {"identity": "CN=release, O=Acme", "issuer": "CN=Acme CA", "fingerprint": "SHA256:a"}
    ]
    assert verification["facts"] == {"policy": "strict"}


def test_facts_without_a_proof_prove_nothing() -> None:
    artifact = held(metadata={f"{FACT}identity": "Mallory", f"{FACT}method": "git"})

    assert "verification" not in shown(artifact, [])["status"]
    assert cell("Verified", shown(artifact, [])) == ""


def test_nobodys_word_is_taken_for_an_external_artifact() -> None:
    artifact = held("ExternalArtifact", metadata={VERIFIED: "by the pope"})

    assert "verification" not in shown(artifact, [])["status"]


def test_users_are_those_of_the_revision() -> None:
    users = [
        consumer("b", applied=REVISION, tried="next"),
        consumer("a", applied="before", tried=REVISION),
        consumer("c", applied="before", tried="before"),
    ]

    status = shown(held(), users)["status"]

    assert [(user["name"], user["state"]) for user in status["usedBy"]] == [
        ("a", "Attempted"),
        ("b", "Applied"),
    ]


def test_users_may_tell_the_digest_of_the_revision() -> None:
    users = [
        consumer("b", applied="sha256:1", tried="sha256:1"),
        consumer("a", applied="sha256:2", tried="sha256:1"),
        consumer("c", applied="6.5.0", tried=""),
    ]

    status = shown(held(revision="6.5.0@sha256:1"), users)["status"]

    assert [(user["name"], user["state"]) for user in status["usedBy"]] == [
        ("a", "Attempted"),
        ("b", "Applied"),
    ]


def test_users_elsewhere_are_counted() -> None:
    users = [consumer("secret", namespace="b", applied=REVISION), consumer("a", applied=REVISION)]

    obj = shown(held(), users)

    assert obj["status"]["usedElsewhere"] == 1
    assert "secret" not in str(obj)
    assert cell("Used By", obj) == "Kustomization/a, +1"


def test_an_unknown_revision_is_used_by_nobody() -> None:
    assert "usedBy" not in shown(held(revision=""), [consumer("a")])["status"]


def test_a_content_keeps_its_uid() -> None:
    one, same, other = (shown(held(digest=f"sha256:{char * 64}"), []) for char in "aab")

    assert one["metadata"]["uid"] == same["metadata"]["uid"] != other["metadata"]["uid"]


def test_a_name_that_is_too_long_for_a_label_has_none() -> None:
    owner = Owner(kind="GitRepository", namespace="apps", name="x" * 64)

    labels = shown(held(owner=owner), [])["metadata"]["labels"]

    assert set(labels) == {"gitops.penstock.dev/source-kind", "gitops.penstock.dev/current"}


@pytest.mark.parametrize(
    ("size", "told"),
    [(0, "0B"), (1023, "1023B"), (1536, "1.5KiB"), (20 << 10, "20KiB"), (3 << 30, "3.0GiB")],
)
def test_sizes_are_for_people(size: int, told: str) -> None:
    assert cell("Size", shown(held(size=size), [])) == told


@pytest.mark.parametrize(
    ("revision", "told"),
    [
        (REVISION, "main@sha1:4ab8f2c1"),
        ("v1.0.0@sha256:" + "4ab8f2c1" * 8, "v1.0.0@sha256:4ab8f2c1"),
        ("6.5.4", "6.5.4"),
        ("", "<unknown>"),
    ],
)
def test_revisions_are_shortened(revision: str, told: str) -> None:
    assert cell("Revision", shown(held(revision=revision), [])) == told


def test_where_it_is_stored_is_a_kind_or_a_host() -> None:
    external = held(backend="external", url="http://user:pw@other.example:81/x")

    assert cell("Stored", shown(held(), [])) == "local"
    assert cell("Stored", shown(held(backend=""), [])) == "<unknown>"
    assert cell("Stored", shown(external, [])) == "other.example:81"
