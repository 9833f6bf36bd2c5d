"""What status and events say of a source while its upstream comes, goes and comes back."""

import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.source.proofs import FRESH
from controllers.source.source import SUCCEEDED, Fetched, File, Scratch, Upstream
from crds import GIT_REPOSITORY, OCI_REPOSITORY
from crds.kind import Kind
from crds.meta import VERIFIED, Artifact
from crds.source_oci import OCIRepository
from tests.fakes.passes import Cluster, condition
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.reconciliation import Outcome
from toolkit.policy import origins
from toolkit.policy.origins import Origin
from toolkit.verify.signature import (
    FACT,
    Proof,
    Signer,
    VerificationError,
    VerificationModeError,
)

ADA = Signer(identity="ada", fingerprint="f")
PROOF = Proof(signer=ADA, message="signed by ada", facts={f"{FACT}identity": "ada"})
OTHER = Proof(signer=ADA, message="signed by bob", facts={f"{FACT}identity": "bob"})
PASSED = Proof(signer=ADA, message="let pass", tolerated=True)


@dataclass
class Upstreams:
    """A source whose revision, proof and failures the test says."""

    revision: str = "v1"
    trust: str = ""
    observed: dict[str, Any] = field(default_factory=dict)
    answer: Proof | PenstockError | None = None
    failure: PenstockError | None = None
    fetched: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    content_addressed: bool = False
    parts: tuple[Origin, ...] = ()
    kind: Kind[Any] = OCI_REPOSITORY

    async def resolve(self, _: OCIRepository, _scratch: Scratch) -> Upstream:
        prove = self._prove if self.trust else None
        return Upstream(
            revision=self.revision,
            trust=self.trust,
            observed=self.observed,
            prove=prove,
            parts=self.parts,
            content_addressed=self.content_addressed,
        )

    async def fetch(self, _: OCIRepository, upstream: Upstream, into: Path) -> Fetched:
        self.fetched += 1
        proof = await upstream.prove() if upstream.prove else None
        if self.failure:
            raise self.failure
        (into / "file").write_text(upstream.revision)
        name = f"{upstream.revision}.tar.gz"
        content = File(path=into / "file")
        return Fetched(
            filename=name, summary="fetched", content=content, proof=proof, metadata=self.metadata
        )

    def message(self, _: OCIRepository, artifact: Artifact) -> str:
        return f"stored {artifact.revision}"

    def reason(self, _: Artifact) -> str:
        return SUCCEEDED

    async def _prove(self) -> Proof:
        assert self.answer is not None
        if isinstance(self.answer, PenstockError):
            raise self.answer
        return self.answer


class Full(Storage):
    """A store that cannot keep anything, or not clean up, while the test says so."""

    full = False
    stuck = False

    async def store_file(self, *args: Any, **kwargs: Any) -> Artifact:
        if self.full:
            raise TransientError("the disk is full", reason="ArchiveOperationFailed")
        return await super().store_file(*args, **kwargs)

    async def collect(self, owner: Owner, *, current: Artifact | None) -> tuple[str, ...]:
        if self.stuck:
            raise TransientError("cannot delete", reason="ArchiveOperationFailed")
        return await super().collect(owner, current=current)


class World:
    """One source with its passes, in a store of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.source = Upstreams()
        self.serve("store.test")
        self.create(OCI_REPOSITORY, "oci://registry.example/web")

    def create(self, kind: Kind[Any], url: str) -> None:
        """Work with an object of this kind."""
        body = {
            "kind": kind.kind,
            "metadata": {"name": "web", "namespace": "apps", "generation": 1},
            "spec": {"interval": "1h", "url": url},
        }
        self.source.kind, self.obj = kind, msgspec.convert(body, kind.model)
        self.cluster.put(self.obj)

    def serve(self, advertised: str) -> None:
        """Start a process anew on the same disk, under this address."""
        before = getattr(self, "cluster", None)
        self.store = Full(
            self.directory / "root",
            advertised=advertised,
            retention_ttl=-1,
            retention_records=1,
        )
        self.cluster = Cluster(self.store, self.directory / "scratch")
        if before:
            self.cluster.objects |= before.objects

    async def run(self, *triggers: str) -> Any:
        """Run a pass, and let it fail."""
        with contextlib.suppress(PenstockError):
            await self.well(*triggers)
        return self.cluster.objects[self.source.kind.kind, "apps", "web"]

    async def well(self, *triggers: str) -> Outcome:
        """Run a pass that ends well."""
        return await self.cluster.reconcile(self.source.kind, self.source, self.obj, *triggers)

    def told(self, reason: str) -> list[str]:
        """Return the severities of the events with a reason."""
        return [event.severity for event in self.cluster.events if event.reason == reason]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def metadata(obj: OCIRepository) -> dict[str, str]:
    return obj.status.artifact.metadata if obj.status.artifact else {}


def ago(**time: float) -> datetime:
    return datetime.now(UTC) - timedelta(**time)


async def test_events_name_the_revision_that_the_artifact_was_made_of(world: World) -> None:
    world.source.metadata = {"org.opencontainers.image.revision": "main@sha1:abc"}
    await world.run()
    await world.run("requested")
    world.source.revision, world.source.metadata = "v2", {}
    await world.run()

    told = [
        (each.reason, each.metadata.get("originRevision"))
        for each in world.cluster.events
        if "Artifact" in each.reason
    ]

    assert told == [
        ("NewArtifact", "main@sha1:abc"),
        ("ArtifactUpToDate", "main@sha1:abc"),
        ("NewArtifact", None),
    ]


async def test_refused_revision_that_is_gone_again_leaves_no_trace(world: World) -> None:
    source = world.source
    source.trust, source.answer = "keys", PROOF
    await world.run()
    source.revision, source.answer = "v2", VerificationError("nobody did", step=1)
    refused = await world.run()
    source.revision, source.answer = "v1", PROOF

    back = await world.run()

    assert condition(refused, "SourceVerified")[:2] == ("False", "VerificationError")
    assert condition(back, "SourceVerified") == ("True", "Succeeded", "signed by ada")
    assert condition(back, "ArtifactOutdated") == ("", "", "")
    assert source.fetched == 2


async def test_artifact_without_a_signer_is_verified_again_after_a_refusal(world: World) -> None:
    source = world.source
    source.trust, source.answer = "keys", PASSED
    await world.run()
    source.revision, source.answer = "v2", VerificationError("nobody did", step=1)
    await world.run()
    source.revision, source.answer = "v1", PASSED

    back = await world.run()

    assert condition(back, "SourceVerified") == ("Unknown", "Ignored", "let pass")
    assert source.fetched == 3


async def test_demand_that_is_gone_takes_its_condition_along(world: World) -> None:
    await world.run()
    world.source.failure = TransientError("no Secret", reason="VerificationError")
    world.source.revision = "v2"
    await world.run()
    world.source.revision = "v1"

    back = await world.run()

    assert condition(back, "SourceVerified") == ("", "", "")


async def test_storage_that_failed_for_a_gone_revision_is_well_again(world: World) -> None:
    await world.run()
    world.source.revision, world.store.full = "v2", True
    failed = await world.run()
    world.source.revision, world.store.full = "v1", False

    back = await world.run()

    assert condition(failed, "StorageOperationFailed")[0] == "True"
    assert condition(back, "StorageOperationFailed") == ("", "", "")


async def test_lost_artifact_is_announced_no_more(world: World) -> None:
    kept = await world.run()
    assert kept.status.artifact is not None
    world.store.path(kept.status.artifact).unlink()
    world.source.failure = TransientError("away", reason="OCIArtifactPullFailed")

    lost = await world.run()

    assert lost.status.artifact is None
    assert condition(lost, "ArtifactInStorage") == ("", "", "")
    assert condition(lost, "ArtifactOutdated")[:2] == ("True", "NoArtifact")
    assert lost.status.url == ""


async def test_status_links_to_the_newest_artifact_where_it_is_served_now(world: World) -> None:
    first = await world.run()
    world.serve("moved.test")

    moved = await world.run()

    assert first.status.url == "http://store.test/ocirepository/apps/web/latest.tar.gz"
    assert moved.status.url == "http://moved.test/ocirepository/apps/web/latest.tar.gz"
    assert world.source.fetched == 1


async def test_withdrawn_artifact_is_linked_to_no_more(world: World) -> None:
    await world.run()
    world.source.trust, world.source.answer = "keys", VerificationError("nobody did")

    found = await world.run()

    assert found.status.artifact is None
    assert found.status.url == ""


async def test_mode_that_cannot_be_met_withdraws_the_artifact(world: World) -> None:
    await world.run()
    world.source.trust, world.source.answer = "Tag keys", VerificationModeError("no tag")

    found = await world.run()

    assert found.status.artifact is None
    assert condition(found, "SourceVerified")[:2] == ("False", "InvalidVerificationMode")


async def test_new_revision_that_cannot_be_had_outdates_the_artifact(world: World) -> None:
    first = await world.run()
    world.source.revision = "v2"
    world.source.failure = TransientError("away", reason="OCIArtifactPullFailed")

    found = await world.run()

    assert condition(first, "ArtifactOutdated") == ("", "", "")
    new = ("True", "NewRevision", "new upstream revision 'v2'")
    assert condition(found, "ArtifactOutdated") == new
    assert found.status.artifact is not None


async def test_other_includes_outdate_the_artifact(world: World) -> None:
    world.create(GIT_REPOSITORY, "https://git.example/web")
    included = {"digest": "sha256:1", "path": "p", "revision": "r", "url": "u"}
    world.source.observed = {"includedArtifacts": None}
    await world.run()
    world.source.observed = {"includedArtifacts": [included]}
    world.source.failure = TransientError("away", reason="GitOperationFailed")

    found = await world.run()

    assert condition(found, "ArtifactOutdated")[:2] == ("True", "IncludeChange")


async def test_other_spec_alone_outdates_nothing(world: World) -> None:
    world.source.observed = {"observedIgnore": None}
    await world.run()
    world.source.observed = {"observedIgnore": "*.txt"}
    world.source.failure = TransientError("away", reason="OCIArtifactPullFailed")

    found = await world.run()

    assert world.source.fetched == 2
    assert condition(found, "ArtifactOutdated") == ("", "", "")


async def test_up_to_date_is_told_to_who_asks(world: World) -> None:
    await world.run("requested")
    await world.run()
    before = world.told("ArtifactUpToDate")

    await world.run("requested")

    assert before == []
    assert world.told("ArtifactUpToDate") == ["trace"]


async def test_old_artifact_that_goes_is_told(world: World) -> None:
    await world.run()
    world.source.revision = "v2"
    await world.run()
    world.source.revision = "v3"

    await world.run()

    assert set(world.told("GarbageCollectionSucceeded")) == {"trace"}


async def test_old_artifact_that_stays_fails_no_pass(world: World) -> None:
    world.store.stuck = True

    outcome = await world.well()
    found = world.cluster.objects["OCIRepository", "apps", "web"]

    assert outcome.reason == "Succeeded"
    assert condition(found, "ArtifactInStorage")[0] == "True"
    assert world.told("GarbageCollectionFailed") == ["error"]


async def test_proof_is_made_again_when_it_is_over_and_nothing_is_fetched(world: World) -> None:
    source = world.source
    source.trust, source.answer = "keys", until(PROOF, ago(minutes=1))
    before = await world.run()
    source.answer = until(PROOF, ago(minutes=-30))

    outcome = await world.well()
    after = world.cluster.objects["OCIRepository", "apps", "web"]

    assert metadata(after)[FRESH] > metadata(before)[FRESH]
    assert metadata(after)[VERIFIED] == "signed by ada"
    assert source.fetched == 1
    assert outcome.requeue_after is not None
    assert 60 < outcome.requeue_after <= 30 * 60


async def test_proof_that_is_not_over_is_not_made_again(world: World) -> None:
    source = world.source
    source.trust, source.answer = "keys", until(PROOF, ago(minutes=-30))
    await world.run()
    source.answer = VerificationError("revoked", step=8)

    found = await world.run()

    assert found.status.artifact is not None
    assert condition(found, "SourceVerified")[0] == "True"


async def test_signature_that_holds_no_longer_withdraws_the_artifact(world: World) -> None:
    source = world.source
    source.trust, source.answer = "keys", until(PROOF, ago(minutes=1))
    kept = await world.run()
    source.answer = VerificationError("revoked", step=8)

    found = await world.run()

    assert kept.status.artifact is not None
    assert not world.store.path(kept.status.artifact).exists()
    assert found.status.artifact is None
    assert condition(found, "SourceVerified")[0] == "False"
    assert world.told("ArtifactWithdrawn") == ["error"]


async def test_proof_that_nobody_can_make_now_withdraws_nothing(world: World) -> None:
    source = world.source
    source.trust, source.answer = "keys", until(PROOF, ago(minutes=1))
    await world.run()
    source.answer = TransientError("no answer", reason="OCIArtifactPullFailed")

    found = await world.run()

    assert found.status.artifact is not None
    assert condition(found, "FetchFailed")[:2] == ("True", "OCIArtifactPullFailed")
    assert condition(found, "SourceVerified")[0] == "True"


@pytest.mark.parametrize("answer", [OTHER, PASSED])
async def test_proof_that_says_other_makes_the_artifact_again(world: World, answer: Proof) -> None:
    source = world.source
    source.trust, source.answer = "keys", until(PROOF, ago(minutes=1))
    await world.run()
    source.answer = answer

    found = await world.run()

    assert source.fetched == 2
    assert metadata(found).get(VERIFIED, "let pass") == answer.message
    assert condition(found, "SourceVerified")[2] == answer.message


def until(proof: Proof, when: datetime) -> Proof:
    return Proof(signer=proof.signer, message=proof.message, facts=proof.facts, fresh_until=when)


GOOD, EVIL = "oci://registry.example/web", "oci://evil.example/web"


def fetched_from(obj: OCIRepository) -> list[str]:
    """Return what the artifact tells of the addresses that it was fetched from."""
    return [each.url for each in origins.read(metadata(obj))]


def forget(world: World) -> None:
    """Leave the status as a version that kept no record did."""
    known = world.cluster.objects["OCIRepository", "apps", "web"]
    bare = msgspec.structs.replace(known.status.artifact, metadata=origins.without(metadata(known)))
    status = msgspec.structs.replace(known.status, artifact=bare)
    world.cluster.put(msgspec.structs.replace(known, status=status))


def point(world: World, url: str) -> None:
    """Change the address in the spec."""
    known = world.cluster.objects["OCIRepository", "apps", "web"]
    spec = msgspec.structs.replace(known.spec, url=url)
    world.cluster.put(msgspec.structs.replace(known, spec=spec))


async def test_the_same_revision_elsewhere_is_fetched_again(world: World) -> None:
    before = await world.run()
    point(world, EVIL)
    elsewhere = await world.run()
    again = await world.run()

    assert [fetched_from(each) for each in (before, elsewhere, again)] == [[GOOD], [EVIL], [EVIL]]
    assert world.source.fetched == 2


async def test_the_record_stays_as_it_was_until_the_new_address_answers(world: World) -> None:
    await world.run()
    point(world, EVIL)
    world.source.failure = TransientError("no answer")

    after = await world.run()

    assert fetched_from(after) == [GOOD]


async def test_the_same_content_elsewhere_is_told_to_be_there_and_not_fetched(world: World) -> None:
    world.source.content_addressed = True
    before = await world.run()
    point(world, EVIL)
    after = await world.run()

    assert (fetched_from(before), fetched_from(after)) == ([GOOD], [EVIL])
    assert world.source.fetched == 1


async def test_what_an_earlier_version_stored_is_told_without_a_fetch(world: World) -> None:
    world.source.content_addressed = True
    await world.run()
    forget(world)

    after = await world.run()

    assert fetched_from(after) == [GOOD]
    assert world.source.fetched == 1


async def test_what_an_earlier_version_stored_of_a_bucket_is_fetched_again(world: World) -> None:
    await world.run()
    forget(world)

    after = await world.run()

    assert fetched_from(after) == [GOOD]
    assert world.source.fetched == 2


async def test_what_a_policy_forbids_is_withdrawn_by_where_it_was_fetched(world: World) -> None:
    await world.run()
    point(world, EVIL)
    world.cluster.policy.addresses = {GOOD}
    world.source.failure = TransientError("no answer")

    after = await world.run()

    assert after.status.artifact is None
    assert world.told("ArtifactWithdrawn") == ["error"]


async def test_content_that_a_policy_forbids_is_withdrawn_once_its_origin_is_known(
    world: World,
) -> None:
    world.source.content_addressed = True
    await world.run()
    forget(world)
    world.cluster.policy.addresses = {GOOD}

    after = await world.run()

    assert after.status.artifact is None
    assert world.told("ArtifactWithdrawn") == ["error"]


async def test_another_part_is_fetched_again_and_another_signer_of_it_is_not(world: World) -> None:
    def part(url: str, signer: str) -> tuple[Origin, ...]:
        return (Origin(kind="GitRepository", name="lib", url=url, facts={VERIFIED: signer}),)

    world.source.parts = part("https://git.example/lib", "ada")
    await world.run()
    world.source.parts = part("https://git.example/lib", "bob")
    same = await world.run()
    fetched = world.source.fetched
    world.source.parts = part("https://evil.example/lib", "bob")
    after = await world.run()

    assert fetched == 1
    assert origins.read(metadata(same))[1].facts == {VERIFIED: "ada"}
    assert fetched_from(after) == [GOOD, "https://evil.example/lib"]
