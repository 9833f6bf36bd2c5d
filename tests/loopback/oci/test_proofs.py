"""A proof that is over: it is made again of what is stored, and nothing is pulled for that."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from crds import OCI_REPOSITORY
from crds.source_oci import OCIRepository
from tests.fakes.passes import Cluster, condition
from tests.fakes.registry import FakeRegistry
from tests.loopback.oci.bench import LAYER, NAME, Bench, obj
from toolkit.artifact.storage import Storage
from toolkit.verify.signature import Proof, Signer, VerificationError

VERIFY = {"provider": "cosign", "secretRef": {"name": "keys"}}
KEY = (
    b"-----BEGIN PUBLIC KEY-----\n"
    b"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
    b"-----END PUBLIC KEY-----\n"
)


def proof(minutes: float) -> Proof:
    """Return a proof that is good for so long."""
    return Proof(
        signer=Signer(identity="ada", fingerprint="f"),
        message="signed by ada",
        fresh_until=datetime.now(UTC) + timedelta(minutes=minutes),
    )


@pytest.fixture
def passes(bench: Bench, tmp_path: Path) -> Cluster:
    bench.cluster.held["keys"] = {"a.pub": KEY}
    return Cluster(Storage(tmp_path / "store", advertised="store.test"), tmp_path / "passes")


async def test_proof_that_is_over_is_made_again_without_a_pull(
    server: FakeRegistry, bench: Bench, passes: Cluster
) -> None:
    server.push(NAME, "v1", [LAYER])
    source, new = bench.source, obj(server, ref={"tag": "v1"}, verify=VERIFY)
    passes.put(new)
    bench.verifier.answer = proof(-1)
    await passes.reconcile(OCI_REPOSITORY, source, new)
    server.counts.clear()

    bench.verifier.answer = proof(5)
    again = await passes.reconcile(OCI_REPOSITORY, source, new)
    fresh = len(bench.verifier.asked)
    await passes.reconcile(OCI_REPOSITORY, source, new)

    assert (fresh, len(bench.verifier.asked)) == (2, 2)
    assert server.counts == {"HEAD manifests": 2}
    assert again.requeue_after == 60


async def test_revoked_certificate_withdraws_what_it_signed(
    server: FakeRegistry, bench: Bench, passes: Cluster
) -> None:
    server.push(NAME, "v1", [LAYER])
    source, new = bench.source, obj(server, ref={"tag": "v1"}, verify=VERIFY)
    passes.put(new)
    bench.verifier.answer = proof(-1)
    await passes.reconcile(OCI_REPOSITORY, source, new)

    bench.verifier.answer = VerificationError("revoked", step=8)
    with pytest.raises(VerificationError, match="step 8"):
        await passes.reconcile(OCI_REPOSITORY, source, new)
    found = msgspec.convert(passes.objects["OCIRepository", "team", "app"], OCIRepository)

    assert found.status.artifact is None
    assert condition(found, "SourceVerified")[0] == "False"
