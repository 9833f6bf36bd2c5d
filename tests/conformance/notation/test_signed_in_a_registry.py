"""What the Notary Project's SDK signs and pushes is found and verified in a registry."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes import notary
from tests.fakes.registry import FakeRegistry
from tests.fakes.revocation import Authority, RevocationServer
from tests.tools import notationsign
from toolkit.native.pool import WorkerPool
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry
from toolkit.verify.notation import notation
from toolkit.verify.notation.notation import Policy, RevocationUnknownError
from toolkit.verify.notation.revocation import Responders
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject

pytestmark = pytest.mark.usefixtures("notation_sign_program")


@pytest.fixture(params=[True, False], ids=["referrers", "fallback tag"])
async def registry(request: pytest.FixtureRequest) -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry(referrers=request.param) as registry:
        yield registry


class _Gate:
    def __init__(self, registry: FakeRegistry, http: Http, pool: WorkerPool) -> None:
        self._store = Registry(http, Endpoint(plain_http=True))
        self._revocations = Responders(http, allow_private=True, seconds=2)
        self._repository = Repository.parse(registry.url("team/app"))
        self._pool = pool

    async def verify(self, reference: str, document: bytes, trusted: dict[str, bytes]) -> Proof:
        """Verify what a tag points at, as a source does."""
        descriptor = await self._store.resolve(self._repository, reference)
        subject = Subject(store=self._store, repository=self._repository, descriptor=descriptor)
        policy = Policy(document=document, certificates=trusted)
        return await notation.verify(
            subject, policy, pool=self._pool, revocations=self._revocations, flow="team"
        )


@pytest.fixture
def gate(registry: FakeRegistry, http: Http, pool: WorkerPool) -> _Gate:
    return _Gate(registry, http, pool)


def _document(registry: FakeRegistry, *stores: str) -> bytes:
    return notary.document(scopes=(f"{registry.host}/team/app",), stores=("ca:x", *stores))


def _push(registry: FakeRegistry) -> str:
    artifact = registry.push("team/app", "v1", [b"content"])
    return f"{registry.host}/team/app@{artifact['digest']}"


async def _sign(*args: object, **kwargs: object) -> None:
    """Sign while the registry, which is ours, goes on answering."""
    await asyncio.to_thread(notationsign.push, *args, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize("media_type", list(notationsign.FORMATS.values()))
async def test_a_pushed_signature_is_found_and_verified(
    registry: FakeRegistry, gate: _Gate, media_type: str
) -> None:
    authority = Authority()
    await _sign(authority.certify(key="3072"), _push(registry), media_type)

    proof = await gate.verify("v1", _document(registry), notary.trust(authority))

    assert not proof.tolerated
    assert proof.signer.identity == "CN=Signer,O=Example,ST=WA,C=US"


async def test_a_timestamp_is_verified_and_told(registry: FakeRegistry, gate: _Gate) -> None:
    authority, clocks = Authority(), Authority("Clock", key="2048")
    at = datetime.now(UTC) - timedelta(minutes=10)
    clock = notationsign.clock(clocks, at=at)
    await _sign(authority.certify(), _push(registry), notary.JWS, timestamp=clock)
    trusted = notary.trust(authority, tsa_clock=clocks.pem)

    proof = await gate.verify("v1", _document(registry, "tsa:x"), trusted)

    told = proof.facts["verify.penstock.dev/signed-at"]
    assert told == at.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert proof.message.endswith(f", at {told}")


async def test_an_unsigned_artifact_is_refused(registry: FakeRegistry, gate: _Gate) -> None:
    _push(registry)

    with pytest.raises(VerificationError, match="step 2: the artifact is not signed"):
        await gate.verify("v1", _document(registry), notary.trust(Authority()))


async def test_a_signature_does_not_follow_a_moved_tag(registry: FakeRegistry, gate: _Gate) -> None:
    authority = Authority()
    await _sign(authority.certify(), _push(registry), notary.COSE)
    registry.push("team/app", "v1", [b"changed"])

    with pytest.raises(VerificationError, match="step 2"):
        await gate.verify("v1", _document(registry), notary.trust(authority))


async def test_revocation_is_asked_over_http(registry: FakeRegistry, gate: _Gate) -> None:
    async with RevocationServer() as server:
        authority = server.authority = Authority(server=server.base)
        signer = authority.certify(responder=True, listed=True)
        await _sign(signer, _push(registry), notary.JWS)
        document, trusted = _document(registry), notary.trust(authority)

        good = await gate.verify("v1", document, trusted)
        authority.revoked.add(signer.serial)
        again = await gate.verify("v1", document, trusted)

        assert not good.tolerated
        assert authority.asked["ocsp"] == 1
        assert again == good


async def test_a_revoked_signer_is_refused_over_http(registry: FakeRegistry, gate: _Gate) -> None:
    async with RevocationServer() as server:
        authority = server.authority = Authority(server=server.base)
        signer = authority.certify(responder=True, listed=True)
        await _sign(signer, _push(registry), notary.JWS)
        authority.revoked.add(signer.serial)
        authority.ocsp_down = True

        with pytest.raises(VerificationError, match=r"step 8: .* is revoked"):
            await gate.verify("v1", _document(registry), notary.trust(authority))


async def test_a_revocation_server_that_is_gone_leaves_it_open(
    registry: FakeRegistry, gate: _Gate
) -> None:
    async with RevocationServer() as server:
        authority = Authority(server=server.base)
    signer = authority.certify(responder=True)
    await _sign(signer, _push(registry), notary.JWS)

    with pytest.raises(RevocationUnknownError, match="step 8"):
        await gate.verify("v1", _document(registry), notary.trust(authority))
