"""What others attach counts as no signature; it never passes for a failing registry.

Were it an error of the registry, an artifact that nobody signed would stay in use for as long as
something malformed is attached to it.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes import cosignsigner, notary
from tests.fakes.cosignscene import trusting
from tests.fakes.registry import OCI_INDEX, OCI_MANIFEST, Descriptor, FakeRegistry
from tests.fakes.revocation import Authority, Revocations
from tests.fakes.sigstore import Sigstore, canonical
from toolkit.native.pool import WorkerPool
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http
from toolkit.remote.oci import oci
from toolkit.remote.oci.errors import MalformedError, RegistryError
from toolkit.remote.oci.registry import Registry
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.notation import notation
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject

NAME = "acme/app"


@dataclass(slots=True)
class Cosign:
    """Signs and verifies by cosign; ``kind`` is the type of its signatures."""

    registry: FakeRegistry
    sigstore: Sigstore
    kind: str = cosignsigner.BUNDLE
    layer: str = cosignsigner.BUNDLE
    readable: int = 2
    listed: int = 2

    def signature(self, target: Descriptor) -> bytes:
        return canonical(cosignsigner.keyless(self.sigstore, target["digest"]))

    async def verify(self, subject: Subject) -> Proof:
        policy = trusting(self.sigstore)
        return await cosign.verify(subject, policy, public_root=PublicRoot(offline=True))


@dataclass(slots=True)
class Notation:
    """The same by Notation."""

    registry: FakeRegistry
    authority: Authority
    pool: WorkerPool
    kind: str = notation.SIGNATURE
    layer: str = notary.JWS
    readable: int = 3
    listed: int = 2

    def signature(self, target: Descriptor) -> bytes:
        described = oci.Descriptor(
            media_type=target["mediaType"], digest=target["digest"], size=target["size"]
        )
        return notary.envelope(self.authority.certify(), described)

    async def verify(self, subject: Subject) -> Proof:
        document = notary.document(scopes=("*",))
        policy = notation.Policy(document=document, certificates=notary.trust(self.authority))
        revocations = Revocations(self.authority)
        return await notation.verify(
            subject, policy, pool=self.pool, revocations=revocations, flow="team"
        )


Method = Cosign | Notation


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as running:
        yield running


@pytest.fixture
def artifact(registry: FakeRegistry) -> Descriptor:
    return registry.push(NAME, "v1", [b"content"])


@pytest.fixture
async def subject(registry: FakeRegistry, artifact: Descriptor, http: Http) -> Subject:
    store = Registry(http, Endpoint(plain_http=True), timeout=20.0)
    repository = oci.Repository.parse(registry.url(NAME))
    descriptor = await store.resolve(repository, artifact["digest"])
    return Subject(store=store, repository=repository, descriptor=descriptor)


@pytest.fixture(params=["cosign", "notation"])
def method(request: pytest.FixtureRequest, registry: FakeRegistry, pool: WorkerPool) -> Method:
    if request.param == "cosign":
        return Cosign(registry, Sigstore())
    return Notation(registry, Authority(), pool)


def attach(
    method: Method, target: Descriptor, layers: list[Descriptor], number: int = 0, **more: Any
) -> Descriptor:
    """Attach a manifest of the method's type; ``more`` replaces its fields."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": method.kind,
        "config": method.registry.put_blob(b"{}", "application/vnd.oci.empty.v1+json"),
        "layers": layers,
        "subject": target,
        "annotations": {"number": str(number)},
        **more,
    }
    return method.registry.put_manifest(NAME, json.dumps(manifest).encode())


def sign(method: Method, target: Descriptor) -> None:
    data = method.signature(target)
    attach(method, target, [method.registry.put_blob(data, method.layer)])


def layer(method: Method, **wrong: Any) -> Descriptor:
    return method.registry.put_blob(b"no signature", method.layer) | wrong


def too_many_layers(method: Method, target: Descriptor, number: int) -> None:
    attach(method, target, [layer(method)] * 2001, number)


def wrong_version(method: Method, target: Descriptor, number: int) -> None:
    attach(method, target, [layer(method)], number, schemaVersion=1)


def both_manifest_and_index(method: Method, target: Descriptor, number: int) -> None:
    attach(method, target, [layer(method)], number, manifests=[])


def unreadable_digest(method: Method, target: Descriptor, number: int) -> None:
    attach(method, target, [layer(method, digest="md5:0")], number)


def shorter_than_told(method: Method, target: Descriptor, number: int) -> None:
    attach(method, target, [layer(method, size=1000)], number)


def longer_than_told(method: Method, target: Descriptor, number: int) -> None:
    attach(method, target, [layer(method, size=1)], number)


def much_longer_than_told(method: Method, target: Descriptor, number: int) -> None:
    blob = method.registry.put_blob(bytes(2 << 20), method.layer)
    attach(method, target, [blob | {"size": 1}], number)


def without_its_layer(method: Method, target: Descriptor, number: int) -> None:
    attach(method, target, [layer(method, digest=f"sha256:{number:064d}")], number)


def large_manifest(method: Method, target: Descriptor, number: int) -> None:
    padding = {"x": "x" * (5 << 20)}
    attach(method, target, [layer(method, annotations=padding)], number)


Attach = Callable[[Method, Descriptor, int], None]

MALFORMED: list[Attach] = [
    too_many_layers,
    wrong_version,
    both_manifest_and_index,
    unreadable_digest,
    shorter_than_told,
    longer_than_told,
    much_longer_than_told,
    without_its_layer,
    large_manifest,
]


@pytest.mark.parametrize("bad", MALFORMED)
async def test_malformed_attachment_is_no_signature(
    method: Method, artifact: Descriptor, subject: Subject, bad: Attach
) -> None:
    bad(method, artifact, 0)

    with pytest.raises(VerificationError) as caught:
        await method.verify(subject)

    assert caught.value.step == method.readable


@pytest.mark.parametrize("bad", MALFORMED)
async def test_malformed_attachments_do_not_hide_a_signature(
    method: Method, artifact: Descriptor, subject: Subject, bad: Attach
) -> None:
    for number in range(5):
        bad(method, artifact, number)
    sign(method, artifact)

    proof = await method.verify(subject)

    assert not proof.tolerated


async def test_too_many_referrers_are_a_refusal(
    method: Method, registry: FakeRegistry, artifact: Descriptor, subject: Subject
) -> None:
    for number in range(2001):
        attach(method, artifact, [], number)

    with pytest.raises(VerificationError, match="more than 2000") as caught:
        await method.verify(subject)

    assert caught.value.step == method.listed
    assert registry.counts["GET blobs"] == 0


async def test_long_list_of_referrers_is_a_refusal(
    method: Method, artifact: Descriptor, subject: Subject
) -> None:
    for number in range(3):
        attach(method, artifact, [], annotations={"x": str(number) * (3 << 20)})

    with pytest.raises(VerificationError, match="more than 8388608 bytes") as caught:
        await method.verify(subject)

    assert caught.value.step == method.listed


async def test_malformed_fallback_tag_is_a_refusal(
    method: Method, registry: FakeRegistry, artifact: Descriptor, subject: Subject
) -> None:
    registry.has_referrers = False
    registry.index(NAME, artifact["digest"].replace(":", "-"), [artifact] * 2001)

    with pytest.raises(VerificationError) as caught:
        await method.verify(subject)

    assert caught.value.step == method.listed


async def test_fallback_tag_that_is_not_what_its_digest_says_is_an_error(
    method: Method, registry: FakeRegistry, artifact: Descriptor, subject: Subject
) -> None:
    registry.has_referrers = False
    tag = artifact["digest"].replace(":", "-")
    registry.index(NAME, tag, [])
    registry.faults.content[tag] = b"<html>please sign in</html>"

    with pytest.raises(RegistryError, match="it has the digest"):
        await method.verify(subject)


async def test_page_without_a_digest_is_an_error(
    method: Method, registry: FakeRegistry, artifact: Descriptor, subject: Subject
) -> None:
    registry.has_referrers = False
    tag = artifact["digest"].replace(":", "-")
    registry.index(NAME, tag, [])
    registry.faults.content[tag] = b"<html>please sign in</html>"
    registry.faults.digest_header = ""

    with pytest.raises(RegistryError, match="cannot be read"):
        await method.verify(subject)


async def test_blob_that_breaks_off_is_an_error(
    method: Method, registry: FakeRegistry, artifact: Descriptor, subject: Subject
) -> None:
    sign(method, artifact)
    registry.faults.truncate = True

    with pytest.raises(RegistryError) as caught:
        await method.verify(subject)

    assert not isinstance(caught.value, MalformedError)


@pytest.mark.parametrize("served", [b"a page that asks to sign in", b"x" * 100_000])
async def test_blob_with_another_digest_is_an_error(
    method: Method, registry: FakeRegistry, artifact: Descriptor, subject: Subject, served: bytes
) -> None:
    signature = method.registry.put_blob(method.signature(artifact), method.layer)
    attach(method, artifact, [signature])
    registry.faults.content[signature["digest"]] = served

    with pytest.raises(RegistryError) as caught:
        await method.verify(subject)

    assert not isinstance(caught.value, MalformedError)


@pytest.mark.parametrize(
    ("media_type", "document"),
    [
        (
            OCI_MANIFEST,
            {"schemaVersion": 2, "config": None, "layers": [{"digest": "x", "size": 1}]},
        ),
        (OCI_INDEX, {"schemaVersion": 2, "layers": []}),
        (OCI_MANIFEST, []),
    ],
)
async def test_malformed_tag_of_the_old_form_is_no_signature(
    registry: FakeRegistry,
    artifact: Descriptor,
    subject: Subject,
    media_type: str,
    document: object,
) -> None:
    tag = artifact["digest"].replace(":", "-") + ".sig"
    registry.has_referrers = False
    registry.put_manifest(NAME, json.dumps(document).encode(), tag=tag, media_type=media_type)

    gate = Cosign(registry, Sigstore())

    with pytest.raises(VerificationError) as caught:
        await gate.verify(subject)

    assert caught.value.step == gate.readable
