"""ImagePolicy under ImageVerificationPolicies: real registry, real signatures, hostile pushes."""

from typing import Any

import msgspec
import pytest

from crds.image import ImageRef
from tests.fakes import imagescene
from tests.fakes.cosignscene import pem
from tests.fakes.imagescene import KEY, STRANGER
from tests.loopback.automation.conftest import NAME, Bench
from toolkit.errors import StalledError, TransientError, WaitingError
from toolkit.remote.oci.errors import RegistryError

POLICY = "ImagePolicy"
AUTOMATION = "ImageUpdateAutomation"
CONDITION = "ImageVerified"
MARKER = '# {"$imagepolicy": "team:app"}'
VERIFY = "policy.penstock.dev/verify"


def push(bench: Bench, tag: str, content: str = "") -> str:
    return str(bench.registry.push(NAME, tag, [(content or tag).encode()])["digest"])


def signed(bench: Bench, tag: str, content: str = "", **how: Any) -> str:
    digest = push(bench, tag, content)
    imagescene.sign(bench.registry, NAME, digest, **how)
    return digest


async def scanned(bench: Bench) -> None:
    await bench.run("ImageRepository", "requested")


async def chosen(bench: Bench) -> ImageRef | None:
    await bench.run(POLICY)
    latest: ImageRef | None = bench.get(POLICY).status.latest_ref
    return latest


def verified(bench: Bench) -> tuple[str, str, str]:
    obj = bench.get(POLICY)
    (found,) = [each for each in obj.status.conditions if each.type == "ImageVerified"]
    return found.status, found.reason, found.message


@pytest.fixture(autouse=True)
def _scene(bench: Bench) -> None:
    bench.held.held |= {"keys": {"cosign.pub": pem(KEY)}, "other": {"cosign.pub": pem(STRANGER)}}
    bench.image()
    bench.policy()


async def test_an_unsigned_newer_tag_is_passed_over(bench: Bench) -> None:
    bench.demand()
    digest = signed(bench, "1.0.0")
    push(bench, "1.1.0")
    await scanned(bench)

    latest = await chosen(bench)
    await bench.run(POLICY)

    image = f"{bench.registry.host}/{NAME}"
    assert latest == ImageRef(name=image, tag="1.0.0", digest=digest)
    status, reason, message = verified(bench)
    assert (status, reason) == ("True", "Succeeded")
    assert message.startswith(f"1.0.0@{digest} is signed by ")
    assert "as ImageVerificationPolicy 'signed' demands; not chosen: 1.1.0: verifier" in message
    assert [each for each in bench.told() if "not chosen" in each] == [message]
    outcome = await bench.run(POLICY)
    assert (outcome.quiet, outcome.requeue_after) == (True, 3600)


async def test_a_signature_that_comes_later_counts_at_once(bench: Bench) -> None:
    bench.demand()
    signed(bench, "1.0.0")
    digest = push(bench, "1.1.0")
    await scanned(bench)
    await bench.run(POLICY)
    imagescene.sign(bench.registry, NAME, digest)

    latest = await chosen(bench)

    assert latest
    assert latest.tag == "1.1.0"
    assert "not chosen" not in verified(bench)[2]


@pytest.mark.parametrize("how", [{"key": STRANGER}, {"says": f"sha256:{'0' * 64}"}])
async def test_a_signature_of_a_stranger_or_of_another_image_is_none(
    bench: Bench, how: dict[str, Any]
) -> None:
    bench.demand()
    signed(bench, "1.0.0", **how)
    await scanned(bench)

    with pytest.raises(WaitingError, match=r"no tag of .* is signed as .* demands: 1\.0\.0: "):
        await bench.run(POLICY)

    assert bench.get(POLICY).status.latest_ref is None
    assert verified(bench)[0] == "False"


@pytest.mark.parametrize("reflect", [{}, {"digestReflectionPolicy": "IfNotPresent"}])
async def test_a_tag_that_is_moved_keeps_the_digest_that_was_verified(
    bench: Bench, reflect: dict[str, str]
) -> None:
    bench.demand()
    bench.policy(**reflect)
    digest = signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    push(bench, "1.0.0", "evil")

    latest = await chosen(bench)

    assert latest
    assert latest.digest == digest


async def test_a_followed_tag_moves_only_to_what_is_signed(bench: Bench) -> None:
    bench.demand()
    bench.policy(digestReflectionPolicy="Always", interval="5m")
    digest = signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    push(bench, "1.0.0", "evil")

    kept = await chosen(bench)

    assert kept
    assert kept.digest == digest
    assert "not chosen: 1.0.0: " in verified(bench)[2]
    rebuilt = signed(bench, "1.0.0", "rebuilt")
    followed = await chosen(bench)
    assert followed
    assert followed.digest == rebuilt
    assert "not chosen" not in verified(bench)[2]


async def test_a_policy_that_appears_later_takes_an_unsigned_choice_back(bench: Bench) -> None:
    push(bench, "1.0.0")
    marker = '# {"$imagepolicy": "team:app"}'
    before = f"image: {bench.registry.host}/{NAME}:0.9.0 {marker}\n"
    bench.fleet.commit({"app.yaml": before})
    bench.automation()
    await scanned(bench)
    first = await chosen(bench)
    assert first
    assert (first.tag, first.digest) == ("1.0.0", "")
    bench.demand()

    with pytest.raises(WaitingError) as refused:
        await bench.run(POLICY)
    await bench.run("ImageUpdateAutomation")

    assert refused.value.reason == "VerificationError"
    assert bench.get(POLICY).status.latest_ref is None
    assert bench.fleet.content("app.yaml") == before
    bench.demands.clear()
    again = await chosen(bench)
    assert again
    assert again.digest == ""
    assert "ImageVerified" not in {each.type for each in bench.get(POLICY).status.conditions}


async def test_a_policy_that_appears_while_the_registry_is_silent_takes_the_choice_back(
    bench: Bench,
) -> None:
    push(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.demand()
    bench.registry.faults.statuses += [("manifests", 503, {})] * 9

    with pytest.raises(RegistryError):
        await bench.run(POLICY)

    assert bench.get(POLICY).status.latest_ref is None
    assert verified(bench)[0] == "Unknown"


async def test_an_outage_keeps_what_was_verified_but_not_under_other_policies(
    bench: Bench,
) -> None:
    bench.demand()
    signed(bench, "1.0.0")
    await scanned(bench)
    latest = await chosen(bench)
    push(bench, "1.1.0")
    await scanned(bench)
    bench.registry.faults.statuses += [("manifests", 503, {})] * 9

    with pytest.raises(RegistryError):
        await bench.run(POLICY)

    assert bench.get(POLICY).status.latest_ref == latest
    bench.demand(keys="other")
    with pytest.raises(RegistryError):
        await bench.run(POLICY)
    assert bench.get(POLICY).status.latest_ref is None


async def test_a_key_that_is_taken_away_takes_the_choice_back(bench: Bench) -> None:
    bench.demand()
    signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.held.held["keys"] = {"cosign.pub": b""}
    bench.restart()  # what was read of the Secret counts for seconds

    with pytest.raises(TransientError):
        await bench.run(POLICY)

    assert bench.get(POLICY).status.latest_ref is None


def fleet(bench: Bench) -> str:
    """Write what an automation is to update, and return its content."""
    content = f"image: {bench.registry.host}/{NAME}:0.9.0 {MARKER}\n"
    bench.fleet.commit({"app.yaml": content})
    bench.automation()
    return content


def withheld(bench: Bench) -> tuple[str, str]:
    """Return what the automation tells of choices that it does not write."""
    found = [each for each in bench.get(AUTOMATION).status.conditions if each.type == CONDITION]
    return (found[0].status, found[0].message) if found else ("", "")


async def test_an_unsigned_choice_of_a_suspended_policy_is_not_written(bench: Bench) -> None:
    before = fleet(bench)
    push(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.policy(suspend=True)
    bench.demand()

    await bench.run(AUTOMATION)
    await bench.run(AUTOMATION)

    assert bench.fleet.content("app.yaml") == before
    status, message = withheld(bench)
    assert status == "False"
    assert message == (
        f"not written: ImagePolicy 'app': {bench.registry.host}/{NAME}:1.0.0 was chosen before "
        "ImageVerificationPolicy 'signed' was in force: resume the policy, so that it chooses again"
    )
    assert bench.told().count(message) == 1
    bench.demands.clear()
    await bench.run(AUTOMATION)
    assert ":1.0.0" in bench.fleet.content("app.yaml")
    assert withheld(bench) == ("", "")


async def test_a_signed_choice_of_a_suspended_policy_is_written_also_after_a_restart(
    bench: Bench,
) -> None:
    fleet(bench)
    bench.demand()
    digest = signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.policy(suspend=True)
    bench.restart()

    await bench.run(AUTOMATION)

    assert f":1.0.0@{digest} {MARKER}" in bench.fleet.content("app.yaml")
    assert withheld(bench) == ("", "")


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_key_that_is_taken_away_counts_for_a_suspended_policy(
    bench: Bench, *, forgotten: bool
) -> None:
    before = fleet(bench)
    bench.demand()
    signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.policy(suspend=True)
    bench.demand(keys="other")
    if forgotten:
        bench.restart()

    await bench.run(AUTOMATION)

    assert bench.fleet.content("app.yaml") == before
    assert "is not signed as ImageVerificationPolicy 'signed' demands" in withheld(bench)[1]


async def test_what_cannot_be_found_out_is_not_written_and_asked_again_soon(bench: Bench) -> None:
    before = fleet(bench)
    bench.demand()
    signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.policy(suspend=True)
    bench.restart()
    bench.registry.faults.statuses += [("manifests", 503, {})] * 9

    outcome = await bench.run(AUTOMATION)

    assert bench.fleet.content("app.yaml") == before
    assert withheld(bench)[0] == "Unknown"
    assert outcome.requeue_after == 60
    bench.registry.faults.statuses.clear()
    assert (await bench.run(AUTOMATION)).requeue_after == 3600
    assert ":1.0.0@" in bench.fleet.content("app.yaml")


async def test_what_there_is_no_time_to_look_at_is_not_written(bench: Bench) -> None:
    bench.demand()
    signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.policy(suspend=True)
    bench.restart()
    policy = bench.get(POLICY)

    with pytest.raises(TransientError, match="no time left to look at its signature"):
        await bench.admission.require(
            policy, policy.status.latest_ref, bench.repositories, deadline=0.0
        )


async def test_a_choice_that_its_policy_has_not_verified_yet_is_not_written(bench: Bench) -> None:
    before = fleet(bench)
    bench.policy(name="more")
    push(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.demand()  # the policy has not looked again

    await bench.run(AUTOMATION)

    assert bench.fleet.content("app.yaml") == before
    assert "resume" not in withheld(bench)[1]


async def test_a_choice_that_somebody_else_wrote_into_the_status_is_not_written(
    bench: Bench,
) -> None:
    before = fleet(bench)
    bench.demand()
    signed(bench, "1.0.0")
    unsigned = push(bench, "1.1.0")
    await scanned(bench)
    await bench.run(POLICY)
    obj = bench.get(POLICY)
    forged = ImageRef(name=obj.status.latest_ref.name, tag="1.1.0", digest=unsigned)
    status = msgspec.structs.replace(obj.status, latest_ref=forged)
    bench.cluster.put(msgspec.structs.replace(obj, status=status))

    await bench.run(AUTOMATION)

    assert bench.fleet.content("app.yaml") == before
    assert f"1.1.0@{unsigned} is not signed as" in withheld(bench)[1]


async def test_another_image_than_that_of_the_repository_is_not_written(bench: Bench) -> None:
    before = fleet(bench)
    bench.demand()
    signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.policy(suspend=True)
    bench.image(image=f"{bench.registry.host}/org/other")

    await bench.run(AUTOMATION)

    assert bench.fleet.content("app.yaml") == before
    assert "its ImageRepository has another image than" in withheld(bench)[1]


async def test_one_choice_that_is_withheld_does_not_hold_up_the_others(bench: Bench) -> None:
    fleet(bench)
    bench.fleet.commit({"other.yaml": f"tag: 0.1.0 {MARKER.replace(':app', ':free:tag')}\n"})
    bench.demand()
    push(bench, "1.0.0")
    await scanned(bench)
    bench.chosen("2.0.0", name="free")  # an image that no policy names
    with pytest.raises(WaitingError):
        await bench.run(POLICY)

    await bench.run(AUTOMATION)

    assert "tag: 2.0.0 " in bench.fleet.content("other.yaml")


async def test_a_flood_of_unsigned_tags_neither_wins_nor_costs_without_bound(bench: Bench) -> None:
    bench.demand()
    digest = signed(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    for number in range(60):
        push(bench, f"9.9.{number}")
    await scanned(bench)
    bench.registry.counts.clear()

    latest = await chosen(bench)

    assert latest
    assert (latest.tag, latest.digest) == ("1.0.0", digest)
    assert "; and 45 more" in verified(bench)[2]
    assert bench.registry.counts.total() <= 50 * 4


async def test_a_registry_that_lies_about_digests_gets_nothing_chosen(bench: Bench) -> None:
    bench.demand()
    signed(bench, "1.0.0")
    await scanned(bench)
    bench.registry.faults.digest_header = f"sha256:{'0' * 64}"

    with pytest.raises(WaitingError, match=r"1\.0\.0: "):
        await bench.run(POLICY)

    assert bench.get(POLICY).status.latest_ref is None


async def test_a_digest_that_is_none_is_computed_from_the_manifest(bench: Bench) -> None:
    bench.policy(digestReflectionPolicy="IfNotPresent")
    digest = push(bench, "1.0.0")
    await scanned(bench)
    bench.registry.faults.digest_header = "sha256:1"

    latest = await chosen(bench)

    assert latest
    assert latest.digest == digest


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "Warn"},
        {"images": ["ghcr.io/**"]},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}},
    ],
)
async def test_what_admission_would_not_refuse_is_chosen(bench: Bench, spec: Any) -> None:
    bench.labels["team"] = {"kubernetes.io/metadata.name": "team"}
    bench.demand(**spec)
    push(bench, "1.0.0")
    await scanned(bench)

    latest = await chosen(bench)

    assert latest
    assert latest.tag == "1.0.0"


async def test_the_annotation_demands_policies_of_elsewhere(bench: Bench) -> None:
    bench.labels["team"] = {"kubernetes.io/metadata.name": "team"}
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "prod"}}
    bench.demand("prod", mode="Audit", namespaceSelector=elsewhere)
    bench.demand("more", keys="other", namespaceSelector=elsewhere)
    bench.put(POLICY, _spec(), annotations={VERIFY: "prod, more"})
    signed(bench, "1.1.0")
    digest = signed(bench, "1.0.0")
    imagescene.sign(bench.registry, NAME, digest, STRANGER)
    await scanned(bench)

    latest = await chosen(bench)

    assert latest
    assert latest.tag == "1.0.0"
    assert "ImageVerificationPolicy 'more', 'prod'" in verified(bench)[2]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("none", "'none', but there is none of this name"),
        ("ghcr", "do not name"),
        ("", "is not a name of an ImageVerificationPolicy"),
    ],
)
async def test_an_annotation_that_demands_what_is_not_there_lets_nothing_pass(
    bench: Bench, annotation: str, words: str
) -> None:
    push(bench, "1.0.0")
    await scanned(bench)
    await bench.run(POLICY)
    bench.demand("ghcr", mode="Audit", images=["ghcr.io/**"])
    bench.put(POLICY, _spec(), annotations={VERIFY: annotation})

    with pytest.raises(StalledError, match=words):
        await bench.run(POLICY)

    assert bench.get(POLICY).status.latest_ref is None


def _spec() -> dict[str, Any]:
    return {"imageRepositoryRef": {"name": "app"}, "policy": {"semver": {"range": ">=1"}}}
