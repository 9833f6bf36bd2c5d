"""What an artifact claims about its signature, whatever becomes of policies, keys and status."""

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crds import OCI_REPOSITORY
from crds.meta import VERIFIED, Artifact
from crds.source_oci import OCIRepository
from tests.contract.oci.bench import LAYER, NAME, Bench, obj
from tests.fakes.passes import Cluster, condition
from tests.fakes.registry import FakeRegistry
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Owner, Storage
from toolkit.errors import PenstockError
from toolkit.verify.signature import Proof, Signer, VerificationError

KEY = (
    b"-----BEGIN PUBLIC KEY-----\n"
    b"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
    b"-----END PUBLIC KEY-----\n"
)
VERIFY = {"provider": "cosign", "secretRef": {"name": "keys"}}
CLAIMS = "verify.penstock.dev/"


class World:
    """One OCIRepository whose passes are real, and a verifier that says what it is told."""

    def __init__(self, server: FakeRegistry, bench: Bench, root: Path) -> None:
        self.server = server
        self.bench = bench
        self.store = Storage(root / "store", advertised="store.test")
        self.cluster = Cluster(self.store, root / "passes")
        bench.cluster.held["keys"] = {"a.pub": KEY}
        bench.verifier.answer = Proof(
            signer=Signer(identity="a.pub", fingerprint="1"),
            message="signed by a.pub",
            facts={f"{CLAIMS}identity": "a.pub"},
        )

    async def run(self, name: str = NAME, **spec: Any) -> OCIRepository:
        """Run a pass over the object with this spec; a failed one is over, too."""
        new = obj(self.server, name, ref={"tag": "v1"}, **spec)
        old = self.cluster.objects.get((new.kind, "team", "app"), new)
        self.cluster.put(msgspec.structs.replace(new, status=old.status))
        with contextlib.suppress(PenstockError):
            await self.cluster.reconcile(OCI_REPOSITORY, self.bench.source, new)
        found: OCIRepository = self.cluster.objects[new.kind, "team", "app"]
        return found


@pytest.fixture
def world(server: FakeRegistry, bench: Bench, tmp_path: Path) -> World:
    server.push(NAME, "v1", [LAYER])
    return World(server, bench, tmp_path)


def claims(found: OCIRepository) -> set[str]:
    metadata = found.status.artifact.metadata if found.status.artifact else {}
    return {key for key in metadata if key.startswith(CLAIMS) or key == VERIFIED}


async def test_artifact_claims_who_signed_it(world: World) -> None:
    found = await world.run(verify=VERIFY)

    assert claims(found) == {VERIFIED, f"{CLAIMS}identity"}
    assert condition(found, "SourceVerified")[:2] == ("True", "Succeeded")


async def test_claims_go_with_the_demand(world: World) -> None:
    await world.run(verify=VERIFY)

    found = await world.run()

    assert found.status.artifact is not None
    assert claims(found) == set()
    assert condition(found, "SourceVerified") == ("", "", "")


async def test_another_provider_that_refuses_withdraws_the_artifact(world: World) -> None:
    before = await world.run(verify=VERIFY)
    world.bench.cluster.held["trust"] = {
        "trustpolicy.json": b"""{"version": "1.0", "trustPolicies": [{"name": "all",
            "registryScopes": ["*"], "signatureVerification": {"level": "skip"}}]}"""
    }
    world.bench.verifier.answer = VerificationError("nobody did", step=2)

    found = await world.run(verify={"provider": "notation", "secretRef": {"name": "trust"}})

    assert before.status.artifact is not None
    assert found.status.artifact is None
    assert not world.store.path(before.status.artifact).exists()


@pytest.mark.parametrize("keys", [{}, {"a.pub": b"no key"}, {"a.pem": KEY}])
async def test_keys_that_are_none_withdraw_the_artifact(
    world: World, keys: dict[str, bytes]
) -> None:
    before = await world.run(verify=VERIFY)
    world.bench.cluster.held["keys"] = keys

    found = await world.run(verify=VERIFY)

    assert before.status.artifact is not None
    assert found.status.artifact is None
    assert condition(found, "SourceVerified")[:2] == ("False", "VerificationError")


async def test_registry_that_is_away_withdraws_nothing(world: World) -> None:
    await world.run(verify=VERIFY)
    world.server.faults.statuses.append(("manifests", 500, {}))

    found = await world.run(verify=VERIFY)

    assert found.status.artifact is not None
    assert condition(found, "FetchFailed")[0] == "True"


async def test_same_digest_elsewhere_is_verified_for_that_place(world: World) -> None:
    await world.run(verify=VERIFY)
    world.server.push("team/copy", "v1", [LAYER])
    world.bench.verifier.answer = VerificationError("nobody did", step=2)

    found = await world.run("team/copy", verify=VERIFY)

    assert found.status.artifact is None


async def test_what_a_policy_lets_pass_claims_nothing(world: World) -> None:
    world.bench.verifier.answer = Proof(
        signer=Signer(identity="x", fingerprint="1"),
        message="let pass",
        facts={f"{CLAIMS}identity": "x"},
        tolerated=True,
    )

    found = await world.run(verify=VERIFY)

    assert found.status.artifact is not None
    assert claims(found) == set()
    assert condition(found, "SourceVerified")[:2] == ("Unknown", "Ignored")


async def test_status_that_names_a_neighbours_artifact_is_not_believed(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/secret").write_text("theirs")
    theirs = await world.store.store(
        Owner(kind="OCIRepository", namespace="victim", name="app"),
        revision="v1",
        filename="1.tar.gz",
        tree=tmp_path / "private",
        ignore=Ignore(),
    )
    mine = await world.run()
    assert mine.status.artifact is not None
    claimed = msgspec.structs.replace(theirs, revision=mine.status.artifact.revision)
    status = msgspec.structs.replace(mine.status, artifact=claimed)
    world.cluster.put(msgspec.structs.replace(mine, status=status))

    found = await world.run()

    assert isinstance(found.status.artifact, Artifact)
    assert found.status.artifact.digest == mine.status.artifact.digest
