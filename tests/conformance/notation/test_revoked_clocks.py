"""A timestamp counts while the authority that made it is not revoked."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from tests.fakes import notary
from tests.fakes.revocation import Authority, Revocations
from tests.tools import notationsign
from toolkit.native.pool import WorkerPool
from toolkit.verify.notation import notation
from toolkit.verify.notation.notation import Policy, RevocationUnknownError
from toolkit.verify.signature import Proof, VerificationError

pytestmark = pytest.mark.usefixtures("notation_sign_program")


class _Case:
    """An artifact whose signature outlived its certificate, thanks to a timestamp."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._shelf = notary.Shelf()
        self._authority = Authority("Signers", server="http://signers.example.com")
        self.clocks = Authority("Clocks", key="2048")
        self._artifact = self._shelf.artifact()
        lasts = (timedelta(days=-30), timedelta(days=-10))
        signer = self._authority.certify(lasts=lasts, responder=True)
        at = datetime.now(UTC) - timedelta(days=20)
        clock = notationsign.clock(self.clocks, at=at, responder=True)
        envelope = notationsign.sign(signer, self._artifact, notary.COSE, at=at, timestamp=clock)
        self._shelf.sign(self._artifact, envelope, media_type=notary.COSE)
        self.serial = x509.load_pem_x509_certificate(clock["chain"].encode()).serial_number

    async def verify(self) -> Proof:
        policy = Policy(
            document=notary.document(stores=("ca:x", "tsa:x")),
            certificates=notary.trust(self._authority, tsa_clock=self.clocks.pem),
        )
        return await notation.verify(
            self._shelf.subject(self._artifact),
            policy,
            pool=self._pool,
            revocations=Revocations(self._authority, self.clocks),
            flow="team",
        )


@pytest.fixture
def case(pool: WorkerPool) -> _Case:
    return _Case(pool)


async def test_clock_and_signer_are_both_asked_about(case: _Case) -> None:
    proof = await case.verify()

    assert not proof.tolerated
    assert case.clocks.asked["ocsp"] == 1


async def test_a_revoked_clock_is_refused(case: _Case) -> None:
    case.clocks.revoked.add(case.serial)

    with pytest.raises(VerificationError, match=r"step 7: .* is revoked"):
        await case.verify()


async def test_a_clock_that_nobody_knows_about_leaves_it_open(case: _Case) -> None:
    case.clocks.ocsp_down = True

    with pytest.raises(RevocationUnknownError, match=r"step 7: .* is unknown"):
        await case.verify()
