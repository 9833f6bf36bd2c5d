"""A certificate is revoked while what it signed is on offer: the next proof finds out.

Nothing stands in for a verifier here: the Notary Project's SDK signs, the engine judges, and who
knows about revocation is asked over HTTP. Its answers last for a second or two, and so do proofs.
"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from controllers.source import proofs
from crds import OCI_REPOSITORY
from crds.source_oci import OCIRepository
from tests.fakes import notary
from tests.fakes.passes import Cluster, condition
from tests.fakes.registry import FakeRegistry
from tests.fakes.revocation import Authority, RevocationServer
from tests.loopback.oci import bench as benches
from tests.loopback.oci.bench import LAYER, NAME, Bench
from tests.tools import notationsign
from tests.tools.waiting import until
from toolkit.artifact.storage import Storage
from toolkit.native.pool import WorkerPool
from toolkit.remote.http.http import Http
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.notation.notation import RevocationUnknownError
from toolkit.verify.notation.revocation import Responders
from toolkit.verify.notation.steps import Step
from toolkit.verify.signature import VerificationError
from toolkit.verify.verifications import Means, Verifications


@pytest.fixture
def bench(http: Http, tmp_path: Path, pool: WorkerPool) -> Bench:
    means = Means(
        public_root=PublicRoot(offline=True),
        pool=pool,
        revocations=Responders(http, allow_private=True),
    )
    return benches.make(http, tmp_path, verify=Verifications(means).verify)


class Passes:
    """Passes over one OCIRepository."""

    def __init__(self, bench: Bench, obj: OCIRepository, directory: Path) -> None:
        self._source, self._obj = bench.source, obj
        store = Storage(directory / "store", advertised="store.test")
        self._cluster = Cluster(store, directory / "passes")
        self._cluster.put(obj)

    async def proven(self) -> bool:
        """Tell whether a pass proved what is on offer."""
        try:
            await self._cluster.reconcile(OCI_REPOSITORY, self._source, self._obj)
        except RevocationUnknownError:
            return False  # the answer was over before it was of use
        return True

    async def refused(self) -> VerificationError | None:
        """Return why a pass refused what is on offer."""
        try:
            await self.proven()
        except VerificationError as exc:
            return exc
        return None

    @property
    def found(self) -> OCIRepository:
        """Return the object as it is now."""
        metadata = self._obj.metadata
        key = self._obj.kind, metadata.namespace, metadata.name
        found: OCIRepository = self._cluster.objects[key]
        return found

    @property
    def fresh(self) -> str:
        """Return until when what is on offer is proved."""
        artifact = self.found.status.artifact
        assert artifact is not None
        return artifact.metadata[proofs.FRESH]


@pytest.mark.usefixtures("notation_sign_program")
@pytest.mark.parametrize("listed", [False, True], ids=["OCSP", "revocation list"])
async def test_revoked_certificate_withdraws_what_it_signed_without_a_pull(
    server: FakeRegistry, bench: Bench, tmp_path: Path, *, listed: bool
) -> None:
    pushed = server.push(NAME, "v1", [LAYER])
    layer = next(digest for digest, blob in server.blobs.items() if blob == LAYER)
    async with RevocationServer() as revocations:
        authority = revocations.authority = Authority(server=revocations.base)
        authority.next_update = timedelta(seconds=2)
        signer = authority.certify(responder=not listed, listed=listed)
        reference = f"{server.host}/{NAME}@{pushed['digest']}"
        await asyncio.to_thread(notationsign.push, signer, reference, notary.JWS)
        bench.cluster.held["trusted"] = {
            "trustpolicy.json": notary.document(scopes=("*",), stores=("ca:x",)),
            **notary.trust(authority),
        }
        verify = {"provider": "notation", "secretRef": {"name": "trusted"}}
        passes = Passes(bench, benches.obj(server, ref={"tag": "v1"}, verify=verify), tmp_path)
        await until(passes.proven)
        first, told = passes.fresh, condition(passes.found, "SourceVerified")
        server.seen.clear()

        await until(lambda: renewed(passes, first))
        again = condition(passes.found, "SourceVerified")
        authority.revoked.add(signer.serial)
        error = await until(passes.refused)

    assert told == again
    assert told[0] == "True"
    assert "CN=Signer" in told[2]
    assert error.step == Step.REVOCATION
    assert "CN=Signer,O=Example,ST=WA,C=US is revoked" in str(error)
    assert passes.found.status.artifact is None
    assert condition(passes.found, "SourceVerified")[0] == "False"
    assert not [seen.path for seen in server.seen if layer in seen.path]


async def renewed(passes: Passes, first: str) -> bool:
    return await passes.proven() and passes.fresh != first
