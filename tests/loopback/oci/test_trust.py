"""What an artifact claims about its signature, whatever becomes of policies, keys and status."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crds import OCI_REPOSITORY
from crds.meta import VERIFIED, Artifact
from crds.source_oci import OCIRepository
from tests.fakes import notary
from tests.fakes.cosignsigner import BUNDLE
from tests.fakes.passes import Cluster, condition
from tests.fakes.registry import FakeRegistry
from tests.fakes.revocation import Authority
from tests.loopback.oci.bench import LAYER, NAME, Bench, obj
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Owner, Storage
from toolkit.errors import PenstockError
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.signature import Proof, Signer, VerificationError
from toolkit.verify.verifications import Means, Verifications

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
        new = obj(self.server, name, **{"ref": {"tag": "v1"}, **spec})
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


@pytest.fixture
def verifications() -> Verifications:
    """Verify for real, but for what needs the engine."""
    unused: Any = None
    return Verifications(
        Means(public_root=PublicRoot(offline=True), pool=unused, revocations=unused)
    )


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


async def test_malformed_attachment_withdraws_what_nobody_signed(
    world: World, verifications: Verifications
) -> None:
    world.bench.source = dataclasses.replace(world.bench.source, verify=verifications.verify)
    before = await world.run()
    assert before.status.artifact is not None
    digest = before.status.artifact.revision.partition("@")[2]
    layers = [world.server.put_blob(b"no signature", BUNDLE)] * 2001
    subject = {"mediaType": "x", "digest": digest, "size": 1}
    world.server.push(NAME, "", layers, artifact_type=BUNDLE, subject=subject)

    found = await world.run(verify=VERIFY)

    assert found.status.artifact is None
    assert not world.store.path(before.status.artifact).exists()
    status, reason, message = condition(found, "SourceVerified")
    assert (status, reason) == ("False", "VerificationError")
    assert "step 2: " in message


@pytest.mark.parametrize("ref", [{"tag": "v1.0.0"}, {"semver": "*"}])
async def test_tag_that_is_gone_withdraws_what_the_keys_never_verified(
    world: World, ref: dict[str, str]
) -> None:
    world.server.push(NAME, "v1.0.0", [LAYER])
    before = await world.run(ref=ref)
    del world.server.tags[NAME]["v1.0.0"]

    without_keys = await world.run(ref=ref)
    with_keys = await world.run(ref=ref, verify=VERIFY)

    assert before.status.artifact is not None
    assert without_keys.status.artifact is not None
    assert with_keys.status.artifact is None
    assert condition(with_keys, "SourceVerified")[:2] == ("False", "VerificationError")


@pytest.mark.parametrize("lost", ["tag", "layer"])
async def test_what_is_gone_withdraws_nothing_that_the_keys_verified(
    world: World, lost: str
) -> None:
    await world.run(verify=VERIFY)
    if lost == "tag":
        del world.server.tags[NAME]["v1"]
    else:
        world.server.push(NAME, "v1", [b"another"])
        world.server.blobs.clear()

    found = await world.run(verify=VERIFY)

    assert found.status.artifact is not None
    assert condition(found, "FetchFailed")[0] == "True"


async def test_signed_tag_without_its_layer_withdraws_what_the_keys_never_verified(
    world: World,
) -> None:
    await world.run()
    world.server.push(NAME, "v1", [b"another"])
    world.server.blobs.clear()

    found = await world.run(verify=VERIFY)

    assert found.status.artifact is None


async def test_policy_that_skips_takes_the_claims_of_keys_away(
    world: World, verifications: Verifications
) -> None:
    before = await world.run(verify=VERIFY)
    world.bench.cluster.held["trust"] = {
        "trustpolicy.json": notary.document("skip", scopes=(world.server.host + "/" + NAME,))
    }
    world.bench.source = dataclasses.replace(world.bench.source, verify=verifications.verify)

    found = await world.run(verify={"provider": "notation", "secretRef": {"name": "trust"}})

    assert claims(before) == {VERIFIED, f"{CLAIMS}identity"}
    assert found.status.artifact is not None
    assert claims(found) == set()
    assert condition(found, "SourceVerified")[:2] == ("Unknown", "Ignored")


async def test_policy_that_is_lowered_asks_again_and_takes_the_claims_away(world: World) -> None:
    authority = Authority()
    held = {"trustpolicy.json": notary.document(scopes=("*",)), **notary.trust(authority)}
    world.bench.cluster.held["trust"] = held
    verify = {"provider": "notation", "secretRef": {"name": "trust"}}
    before = await world.run(verify=verify)
    held["trustpolicy.json"] = notary.document("audit", scopes=("*",))
    world.bench.verifier.answer = Proof(
        signer=Signer(identity="x", fingerprint="1"), message="let pass", tolerated=True
    )

    found = await world.run(verify=verify)

    assert claims(before) == {VERIFIED, f"{CLAIMS}identity"}
    assert len(world.bench.verifier.asked) == 2
    assert claims(found) == set()
    assert condition(found, "SourceVerified")[:2] == ("Unknown", "Ignored")


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
