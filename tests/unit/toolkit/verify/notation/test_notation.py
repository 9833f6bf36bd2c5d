"""Only what satisfies the trust policy is verified; each way around it is refused at its step."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes import notary
from tests.fakes.notary import Shelf
from tests.fakes.revocation import Authority, Certified, Revocations
from toolkit.native.pool import WorkerPool
from toolkit.remote.oci.errors import RegistryError
from toolkit.remote.oci.oci import Descriptor
from toolkit.verify.notation import notation
from toolkit.verify.notation.notation import Policy, RevocationUnknownError
from toolkit.verify.signature import Proof, VerificationError

_AUTHORITY = Authority()
_SIGNER = _AUTHORITY.certify()
_STRANGER = Authority("Root", server="http://stranger.example.com")


@pytest.fixture
def pool(engine_pool: WorkerPool) -> WorkerPool:
    return engine_pool


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def artifact(shelf: Shelf) -> Descriptor:
    return shelf.artifact()


class _Gate:
    """Verifies artifacts on a shelf."""

    def __init__(self, shelf: Shelf, pool: WorkerPool) -> None:
        self._shelf = shelf
        self._pool = pool
        self.revocations = Revocations(_AUTHORITY, _STRANGER)

    async def verify(
        self,
        artifact: Descriptor,
        document: bytes | None = None,
        *,
        trusted: dict[str, bytes] | None = None,
    ) -> Proof:
        policy = Policy(
            document=document or notary.document(),
            certificates=notary.trust(_AUTHORITY) if trusted is None else trusted,
        )
        return await notation.verify(
            self._shelf.subject(artifact),
            policy,
            pool=self._pool,
            revocations=self.revocations,
            flow="team",
        )

    async def refusal(self, artifact: Descriptor, document: bytes | None = None) -> tuple[int, str]:
        """Return step and message of a refusal."""
        with pytest.raises(VerificationError) as refused:
            await self.verify(artifact, document)
        return refused.value.step, str(refused.value)


@pytest.fixture
def gate(shelf: Shelf, pool: WorkerPool) -> _Gate:
    return _Gate(shelf, pool)


async def test_a_signature_by_a_trusted_authority_is_verified(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))

    proof = await gate.verify(artifact)

    assert not proof.tolerated
    assert proof.signer.identity == "CN=Signer,O=Example,ST=WA,C=US"
    assert f"{notary.REPOSITORY}@{artifact.digest} by CN=Signer" in proof.message
    facts = {name.rpartition("/")[2]: value for name, value in proof.facts.items()}
    assert facts["method"] == "notation"
    assert facts["issuer"] == "CN=Root,O=Example,ST=WA,C=US"
    assert facts["level"] == "strict"
    assert facts["fingerprint"] == proof.signer.fingerprint
    assert proof.fresh_until is not None


@pytest.mark.parametrize("key", ["P-384", "P-521", "2048", "3072"])
async def test_every_kind_of_key_is_verified(
    gate: _Gate, shelf: Shelf, artifact: Descriptor, key: str
) -> None:
    shelf.sign(artifact, notary.envelope(_AUTHORITY.certify(key=key), artifact))

    assert not (await gate.verify(artifact)).tolerated


async def test_a_signing_authoritys_store_counts_for_its_scheme_only(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    scheme = "notary.x509.signingAuthority"
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact, scheme=scheme))

    proof = await gate.verify(artifact, notary.document(stores=("signingAuthority:x",)))
    step, _ = await gate.refusal(artifact, notary.document(stores=("ca:x",)))

    assert not proof.tolerated
    assert step == 5


@pytest.mark.parametrize(
    ("scheme", "store", "word"),
    [
        ("notary.x509", "ca:x", "dated"),
        ("notary.x509.signingAuthority", "signingAuthority:x", "at"),
    ],
)
async def test_the_proof_says_when_and_whose_word_that_is(  # noqa: PLR0917  # what is on the shelf, and a case
    gate: _Gate, shelf: Shelf, artifact: Descriptor, scheme: str, store: str, word: str
) -> None:
    signed = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    old = _AUTHORITY.certify(lasts=(signed - datetime.now(UTC), timedelta(days=1)))
    shelf.sign(artifact, notary.envelope(old, artifact, signed=signed, scheme=scheme))

    proof = await gate.verify(artifact, notary.document(stores=(store,)))

    assert proof.message.endswith(f" by {proof.signer}, {word} 2026-01-02T03:04:05Z")


async def test_an_unsigned_artifact_is_refused(gate: _Gate, artifact: Descriptor) -> None:
    assert await gate.refusal(artifact) == (2, "step 2: the artifact is not signed")


async def test_another_authority_is_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_STRANGER.certify(), artifact))

    step, message = await gate.refusal(artifact)

    assert step == 5
    assert message.startswith("step 5: the signature is refused: ")


async def test_another_identity_is_refused(gate: _Gate, shelf: Shelf, artifact: Descriptor) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))
    right = "x509.subject: C=US, ST=WA, O=Example, CN=Signer"

    proof = await gate.verify(artifact, notary.document(identities=(right,)))
    step, message = await gate.refusal(
        artifact, notary.document(identities=(right.replace("CN=Signer", "CN=Other"),))
    )

    assert not proof.tolerated
    assert step == 5
    assert "Other" in message


async def test_an_expired_signature_is_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    expiry = datetime.now(UTC) - timedelta(seconds=5)
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact, expiry=expiry))

    assert (await gate.refusal(artifact))[0] == 6


async def test_an_expired_certificate_is_refused_without_a_timestamp(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    lasts = (timedelta(days=-2), timedelta(days=-1))
    late = _AUTHORITY.certify(lasts=lasts)
    signed = datetime.now(UTC) - timedelta(hours=30)
    shelf.sign(artifact, notary.envelope(late, artifact, signed=signed))

    assert (await gate.refusal(artifact))[0] == 7


async def test_a_demanded_timestamp_must_be_there(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))
    stores = ("ca:example", "tsa:clock")

    step, message = await gate.refusal(artifact, notary.document(stores=stores))
    later = notary.document(stores=stores, timestamp="afterCertExpiry")

    assert step == 7
    assert "no timestamp countersignature" in message
    assert not (await gate.verify(artifact, later)).tolerated


async def test_a_signature_copied_from_another_artifact_is_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    other = shelf.artifact(b"another")
    shelf.sign(artifact, notary.envelope(_SIGNER, other))

    step, message = await gate.refusal(artifact)

    assert step == 9
    assert other.digest in message


@pytest.mark.parametrize("field", ["media_type", "size"])
async def test_every_part_of_the_signed_descriptor_counts(
    gate: _Gate, shelf: Shelf, artifact: Descriptor, field: str
) -> None:
    payload = json.loads(notary.signed_payload(artifact))
    payload["targetArtifact"] |= {"mediaType": "a/b"} if field == "media_type" else {"size": 1}
    content = notary.envelope(_SIGNER, artifact, payload=json.dumps(payload).encode())
    shelf.sign(artifact, content)

    assert (await gate.refusal(artifact))[0] == 9


async def test_a_descriptor_without_a_size_is_completed_before(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))

    proof = await gate.verify(Descriptor(media_type="", digest=artifact.digest, size=0))

    assert not proof.tolerated


async def test_a_signature_that_refers_to_another_artifact_is_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    other = shelf.artifact(b"another")
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact), refers_to=other)

    step, message = await gate.refusal(artifact)

    assert step == 3
    assert f"refers to {other.digest}" in message


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ({"artifact_type": "application/spdx+json"}, "not a signature of the Notary Project"),
        ({"media_type": "application/json"}, "'application/json' are not known"),
        ({"copies": 2}, "2 envelopes instead of one"),
        ({"copies": 0}, "0 envelopes instead of one"),
    ],
)
async def test_a_strange_signature_manifest_is_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor, manifest: dict[str, Any], complaint: str
) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact), **manifest)

    step, message = await gate.refusal(artifact)

    assert step == 3
    assert complaint in message


async def test_a_large_envelope_is_not_even_read(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, bytes(notation.MAX_ENVELOPE + 1))

    step, message = await gate.refusal(artifact)

    assert (step, shelf.counts["blob"]) == (3, 0)
    assert "larger than 1 MiB" in message


def _bombs() -> dict[str, tuple[str, bytes]]:
    whole = notary.envelope(_SIGNER, Shelf().artifact())
    deep = b'{"a":' * 150_000
    return {
        "truncated": (notary.JWS, whole[: len(whole) // 2]),
        "empty": (notary.JWS, b""),
        "deep JSON": (notary.JWS, deep),
        "deep list": (notary.JWS, b"[" * 1_000_000),
        "deep CBOR": (notary.COSE, b"\xd2" + b"\x81" * 1_000_000),
        "CBOR of 2^63 bytes": (notary.COSE, b"\xd2\x84\x5b\x7f" + b"\xff" * 7),
        "CBOR of 2^63 parts": (notary.COSE, b"\xd2\x9b\x7f" + b"\xff" * 7),
        "many certificates": (
            notary.JWS,
            json.dumps({"header": {"x5c": ["AA=="] * 100_000}, "payload": "e30"}).encode(),
        ),
        "JWS called COSE": (notary.COSE, whole),
    }


@pytest.mark.parametrize("bomb", list(_bombs()))
async def test_damaged_envelopes_and_bombs_are_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor, bomb: str
) -> None:
    media_type, content = _bombs()[bomb]
    shelf.sign(artifact, content, media_type=media_type)

    assert (await gate.refusal(artifact, notary.document("audit")))[0] == 4


async def test_a_critical_attribute_that_nobody_understands_is_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact, critical={"com.example.only": "dev"}))

    step, message = await gate.refusal(artifact)

    assert step == 4
    assert "com.example.only" in message


async def test_a_signature_that_demands_a_plugin_is_refused(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    plugin = {"io.cncf.notary.verificationPlugin": "sh"}
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact, critical=plugin))

    assert (await gate.refusal(artifact))[0] == 4


async def test_a_good_signature_is_found_behind_bad_ones(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, b"{}")
    shelf.sign(artifact, notary.envelope(_STRANGER.certify(), artifact))
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))

    assert not (await gate.verify(artifact)).tolerated


async def test_endless_signatures_are_not_all_looked_at(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    for number in range(30):
        shelf.sign(artifact, b"{}" + b" " * number)
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))

    step, message = await gate.refusal(artifact)

    assert step == 4
    assert "none of 31 signatures is valid, of which 10 were checked" in message
    assert shelf.counts["blob"] == 10


async def test_a_signature_that_is_gone_is_passed_over(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    gone = shelf.sign(artifact, b"{}")
    del shelf.manifests[gone.digest]
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))

    assert not (await gate.verify(artifact)).tolerated


@pytest.mark.parametrize("broken", ["referrers", "signature"])
async def test_an_error_of_the_registry_is_not_an_answer(
    gate: _Gate, shelf: Shelf, artifact: Descriptor, broken: str
) -> None:
    signature = shelf.sign(artifact, notary.envelope(_SIGNER, artifact))
    shelf.sign(artifact, b"{}")
    shelf.broken.add("referrers" if broken == "referrers" else signature.digest)

    with pytest.raises(RegistryError):
        await gate.verify(artifact)


async def test_skip_asks_nobody_and_is_no_success(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))

    proof = await gate.verify(artifact, notary.document("skip"), trusted={})

    assert proof.tolerated
    assert "has level 'skip'" in proof.message
    assert not shelf.counts


async def test_a_tolerated_stranger_is_no_success(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_STRANGER.certify(), artifact))

    proof = await gate.verify(artifact, notary.document("audit"))

    assert proof.tolerated
    assert "lets that pass: authenticity" in proof.message


async def test_a_better_signature_than_a_tolerated_one_is_preferred(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_STRANGER.certify(), artifact))
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact))

    assert not (await gate.verify(artifact, notary.document("audit"))).tolerated


@pytest.mark.parametrize(
    "document",
    [notary.document("permissive"), notary.document("strict", override={"expiry": "log"})],
    ids=["permissive", "override"],
)
async def test_a_rollback_to_an_expired_signature_is_no_success(
    gate: _Gate, shelf: Shelf, artifact: Descriptor, document: bytes
) -> None:
    expiry = datetime.now(UTC) - timedelta(seconds=5)
    shelf.sign(artifact, notary.envelope(_SIGNER, artifact, expiry=expiry))

    proof = await gate.verify(artifact, document)

    assert proof.tolerated
    assert "expiry: " in proof.message


async def test_no_level_lets_another_artifacts_signature_pass(
    gate: _Gate, shelf: Shelf, artifact: Descriptor
) -> None:
    shelf.sign(artifact, notary.envelope(_SIGNER, shelf.artifact(b"another")))

    assert (await gate.refusal(artifact, notary.document("audit")))[0] == 9


class TestRevocation:
    """Whether a certificate is revoked is found out where it says that one can."""

    @pytest.fixture(autouse=True)
    def _restored(self) -> None:
        _AUTHORITY.revoked.clear()
        _AUTHORITY.asked.clear()
        _AUTHORITY.ocsp_down = _AUTHORITY.list_down = _AUTHORITY.garbled = False

    @pytest.fixture
    def signer(self, shelf: Shelf, artifact: Descriptor) -> Certified:
        signer = _AUTHORITY.certify(responder=True, listed=True)
        shelf.sign(artifact, notary.envelope(signer, artifact))
        return signer

    @pytest.mark.usefixtures("signer")
    async def test_a_good_certificate_is_verified_after_asking(
        self, gate: _Gate, artifact: Descriptor
    ) -> None:
        proof = await gate.verify(artifact)

        assert not proof.tolerated
        assert dict(_AUTHORITY.asked) == {"ocsp": 1}
        assert len(gate.revocations.kept) == 1
        assert proof.fresh_until is not None
        assert proof.fresh_until <= datetime.now(UTC) + _AUTHORITY.next_update

    @pytest.mark.parametrize("source", ["responder", "list"])
    @pytest.mark.parametrize("level", ["strict", "permissive"])
    async def test_a_revoked_certificate_is_never_a_success(
        self, gate: _Gate, artifact: Descriptor, signer: Certified, source: str, level: str
    ) -> None:
        _AUTHORITY.revoked.add(signer.serial)
        _AUTHORITY.ocsp_down = source == "list"

        if level == "strict":
            step, message = await gate.refusal(artifact)
            assert step == 8
            assert "is revoked" in message
        else:
            assert (await gate.verify(artifact, notary.document(level))).tolerated

    async def test_a_list_is_read_where_there_is_no_responder(
        self, gate: _Gate, shelf: Shelf, artifact: Descriptor
    ) -> None:
        listed = _AUTHORITY.certify(listed=True)
        shelf.sign(artifact, notary.envelope(listed, artifact))

        await gate.verify(artifact)
        _AUTHORITY.revoked.add(listed.serial)
        step, _ = await gate.refusal(artifact)

        assert dict(_AUTHORITY.asked) == {"list": 2}
        assert step == 8

    @pytest.mark.usefixtures("signer")
    @pytest.mark.parametrize("trouble", ["down", "garbled", "outdated"])
    async def test_strict_fails_while_nobody_answers(
        self, gate: _Gate, artifact: Descriptor, trouble: str
    ) -> None:
        _AUTHORITY.ocsp_down = _AUTHORITY.list_down = trouble == "down"
        _AUTHORITY.garbled = trouble == "garbled"
        _AUTHORITY.next_update = timedelta(seconds=-10 if trouble == "outdated" else 3600)

        with pytest.raises(RevocationUnknownError, match=r"step 8: .* is unknown"):
            await gate.verify(artifact)

        _AUTHORITY.next_update = timedelta(hours=1)
        assert not gate.revocations.kept

    @pytest.mark.usefixtures("signer")
    async def test_a_policy_may_log_that_nobody_answers(
        self, gate: _Gate, artifact: Descriptor
    ) -> None:
        _AUTHORITY.ocsp_down = _AUTHORITY.list_down = True

        proof = await gate.verify(artifact, notary.document(override={"revocation": "log"}))

        assert not proof.tolerated
        assert "is unknown" in proof.message
        assert proof.fresh_until is not None
        assert proof.fresh_until < datetime.now(UTC) + timedelta(minutes=11)

    @pytest.mark.usefixtures("signer")
    async def test_a_policy_may_skip_the_question(self, gate: _Gate, artifact: Descriptor) -> None:
        proof = await gate.verify(artifact, notary.document(override={"revocation": "skip"}))

        assert not proof.tolerated
        assert not _AUTHORITY.asked

    async def test_servers_that_a_stranger_names_are_not_asked(
        self, gate: _Gate, shelf: Shelf, artifact: Descriptor
    ) -> None:
        stranger = _STRANGER.certify(responder=True, listed=True)
        shelf.sign(artifact, notary.envelope(stranger, artifact))

        proof = await gate.verify(artifact, notary.document("audit"))

        assert proof.tolerated
        assert gate.revocations.rounds == 0

    async def test_another_authority_cannot_answer(
        self, gate: _Gate, shelf: Shelf, artifact: Descriptor
    ) -> None:
        confused = _AUTHORITY.certify(responder=True, server=_STRANGER.server)
        shelf.sign(artifact, notary.envelope(confused, artifact))

        with pytest.raises(RevocationUnknownError):
            await gate.verify(artifact)

    @pytest.mark.parametrize(("places", "bytes_each"), [(17, 10), (3, 8 << 20)])
    async def test_what_takes_too_much_asking_is_refused(
        self, gate: _Gate, shelf: Shelf, artifact: Descriptor, places: int, bytes_each: int
    ) -> None:
        servers = [f"{_STRANGER.server}/{place}" for place in range(places)]
        shelf.sign(artifact, notary.envelope(_AUTHORITY.certify(responders=servers), artifact))
        _STRANGER.padding = bytes_each

        step, message = await gate.refusal(artifact)

        _STRANGER.padding = 0
        assert step == 8
        assert "takes more than 16 requests or 18 MiB" in message
