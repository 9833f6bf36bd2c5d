"""What policies demand, and what they leave alone."""

import copy
from typing import Any

import pytest

from tests.fakes import admission
from tests.fakes.imagescene import STRANGER, ImageScene, texts, verifier
from toolkit.policy import images
from webhooks.plugin import DeniedError

Json = dict[str, Any]
BOTH = [verifier("release"), verifier("review", "strangers")]


async def test_image_that_no_policy_names_is_left_alone(scene: ImageScene) -> None:
    scene.push("other/app")
    scene.require("acme/*")

    stored = await scene.admit(scene.pod("other/app:v1", "nginx"))

    assert texts(stored) == [scene.name("other/app:v1"), "nginx"]
    assert scene.asked == 0


async def test_excluded_image_is_left_alone(scene: ImageScene) -> None:
    scene.push("acme/tool")
    scene.require("acme/*", exclude=[scene.name("acme/tool")])

    await scene.admit(scene.pod("acme/tool:v1"))


async def test_policy_holds_where_its_selector_says(scene: ImageScene) -> None:
    scene.push("acme/app")
    scene.require("acme/*", namespaceSelector={"matchLabels": {"tier": "dev"}})

    await scene.admit(scene.pod("acme/app:v1"))


async def test_every_matching_policy_must_be_satisfied(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    scene.require("acme/app", policy="reviewed", verifiers=[verifier("review", "strangers")])

    refusal = str(await scene.refusal(scene.pod("acme/app:v1")))

    assert "ImageVerificationPolicy 'reviewed'" in refusal
    assert "ImageVerificationPolicy 'signed'" not in refusal


async def test_all_verifiers_of_a_policy_are_required_by_default(scene: ImageScene) -> None:
    scene.sign("acme/app", scene.signed("acme/app"), STRANGER)
    scene.signed("acme/half")
    scene.require("acme/*", verifiers=BOTH)

    await scene.admit(scene.pod("acme/app:v1"))
    assert "verifier 'review'" in str(await scene.refusal(scene.pod("acme/half:v1")))


@pytest.mark.parametrize("key", ["keys", "strangers"])
async def test_one_verifier_suffices_where_one_is_required(scene: ImageScene, key: str) -> None:
    scene.signed("acme/app")
    verifiers = [verifier("none", "strangers"), verifier("release")]
    scene.require("acme/*", verifiers=verifiers if key == "keys" else BOTH, required=1)

    await scene.admit(scene.pod("acme/app:v1"))


async def test_same_image_in_many_containers_is_pinned_everywhere(scene: ImageScene) -> None:
    digest = scene.signed("acme/app")
    scene.require("acme/*")

    stored = await scene.admit(scene.pod(*["acme/app:v1"] * 1000))

    assert set(texts(stored)) == {f"{scene.name('acme/app:v1')}@{digest}"}
    assert scene.counts["HEAD manifests"] == 1


async def test_image_with_a_digest_is_left_as_it_is_written(scene: ImageScene) -> None:
    digest = scene.signed("acme/app")
    scene.require("acme/*")
    pod = scene.pod(f"acme/app@{digest}", f"acme/app:v9@{digest}")

    assert await scene.admit(pod) == pod


async def test_tag_is_refused_where_digests_are_not_pinned(scene: ImageScene) -> None:
    digest = scene.signed("acme/app")
    scene.require("acme/*", mutateDigest=False)

    assert "named by a tag" in str(await scene.refusal(scene.pod("acme/app:v1")))
    await scene.admit(scene.pod(f"acme/app@{digest}"))


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
async def test_policy_that_does_not_enforce_changes_and_refuses_nothing(
    scene: ImageScene, mode: str
) -> None:
    scene.push("acme/app")
    scene.require("acme/*", mode=mode)
    pod = scene.pod("acme/app:v1")

    stored, _, verified = await scene.answer(pod)

    assert stored == pod
    assert "step 1" in verified.audit["violations"]
    assert len(verified.warnings) == (1 if mode == "Warn" else 0)


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
async def test_policy_that_does_not_enforce_needs_no_registry_to_admit(
    scene: ImageScene, mode: str
) -> None:
    scene.require("acme/*", mode=mode)
    scene.registry.faults.statuses = [("manifests", 500, {})] * 9

    _, _, verified = await scene.answer(scene.pod("acme/app:v1"))

    assert "could not be found out" in verified.audit["violations"]


async def test_audit_log_gets_who_signed_which_digest(scene: ImageScene) -> None:
    digest = scene.signed("acme/app")
    scene.require("acme/*")

    _, _, verified = await scene.answer(scene.pod("acme/app:v1"))

    assert verified.audit["verified"].startswith(f"container 'c0' {digest} by ")
    assert verified.audit["verified"].endswith("(signed)")


async def test_dry_run_is_answered_alike(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.push("acme/evil", content=b"evil")
    scene.require("acme/*")

    assert await scene.admit(scene.pod("acme/app:v1"), dry_run=True) == await scene.admit(
        scene.pod("acme/app:v1")
    )
    await scene.refusal(scene.pod("acme/evil:v1"), dry_run=True)


async def test_second_round_of_the_first_phase_changes_nothing(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    stored = await scene.admit(scene.pod("acme/app:v1"))

    again = await scene.pinning.review(admission.request(stored))

    assert again.object is None


async def test_update_that_leaves_the_images_asks_no_registry(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    old = await scene.admit(scene.pod("acme/app:v1"))
    before, new = scene.asked, copy.deepcopy(old)
    new["metadata"]["labels"] = {"step": "2"}

    assert await scene.admit(new, old) == new
    assert scene.asked == before


async def test_image_that_ran_before_the_policy_may_be_updated_but_not_created(
    scene: ImageScene,
) -> None:
    scene.push("acme/app")
    old = scene.pod("acme/app:v1")
    scene.require("acme/*")

    assert await scene.admit(copy.deepcopy(old), old) == old
    await scene.refusal(old)


async def test_manifest_with_the_tag_keeps_the_digest_when_it_is_applied_again(
    scene: ImageScene,
) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    old = await scene.admit(scene.pod("acme/app:v1"))
    scene.push("acme/app", "v1", b"moved")
    before = scene.asked

    assert await scene.admit(scene.pod("acme/app:v1"), old) == old
    assert scene.asked == before


async def test_other_tag_is_resolved_and_verified(scene: ImageScene) -> None:
    scene.signed("acme/app")
    newer = scene.signed("acme/app", "v2", b"newer")
    scene.require("acme/*")
    old = await scene.admit(scene.pod("acme/app:v1"))

    stored = await scene.admit(scene.pod("acme/app:v2"), old)

    assert texts(stored) == [f"{scene.name('acme/app:v2')}@{newer}"]


async def test_tag_stays_a_tag_once_no_policy_names_it(scene: ImageScene) -> None:
    scene.signed("acme/app")
    policy = scene.require("acme/*")
    old = await scene.admit(scene.pod("acme/app:v1"))
    scene.cluster.remove(policy)

    assert texts(await scene.admit(scene.pod("acme/app:v1"), old)) == [scene.name("acme/app:v1")]


async def test_deletion_is_never_looked_at(scene: ImageScene) -> None:
    scene.push("acme/app")
    scene.require("acme/*")
    asked = admission.request(old=scene.pod("acme/app:v1"))

    assert (await scene.pinning.review(asked)).object is None
    await scene.verification.review(asked)


async def test_blank_image_of_a_template_is_left_to_whoever_fills_it_in(scene: ImageScene) -> None:
    scene.require("acme/*")
    pod = scene.pod("x")
    pod["spec"]["containers"][0]["image"] = " "

    assert images.images(await scene.admit(pod)) == ()


async def test_many_violations_are_told_in_bounds(scene: ImageScene) -> None:
    scene.require("acme/*")
    for number in range(30):
        scene.push("acme/app", f"v{number}", b"%d" % number)

    refusal = await scene.refusal(scene.pod(*[f"acme/app:v{number}" for number in range(30)]))

    assert isinstance(refusal, DeniedError)
    assert str(refusal).endswith("and 27 more")
    assert len(refusal.causes) == 10


@pytest.mark.parametrize(
    ("data", "why"),
    [({}, "the secret holds no public key"), ({"cosign.pub": b"x"}, "is not a public key")],
)
async def test_policy_that_can_trust_nobody_denies(
    scene: ImageScene, data: dict[str, bytes], why: str
) -> None:
    scene.signed("acme/app")
    scene.secret("keys", data, admission.NAMESPACE)
    scene.require("acme/*")

    assert why in str(await scene.refusal(scene.pod("acme/app:v1")))


async def test_policy_whose_secret_is_missing_denies_for_now(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*", verifiers=[verifier("release", "none")])

    refusal = await scene.refusal(scene.pod("acme/app:v1"))

    assert isinstance(refusal, DeniedError)
    assert refusal.code == 503
    assert "Secret 'penstock-system/none' not found" in str(refusal)


async def test_changed_key_counts_for_a_changed_policy_at_once(scene: ImageScene) -> None:
    scene.signed("acme/app")
    policy = scene.require("acme/*")
    await scene.admit(scene.pod("acme/app:v1"))
    policy = {**policy, "metadata": {**policy["metadata"], "generation": 2}}
    policy["spec"] = {**policy["spec"], "verifiers": [verifier("release", "strangers")]}
    scene.cluster.put(policy)

    assert "step 5" in str(await scene.refusal(scene.pod("acme/app:v1")))


async def test_policy_with_a_pattern_that_is_none_denies(scene: ImageScene) -> None:
    scene.signed("acme/app")
    identity = {"issuer": "https://issuer.example.com", "subject": "a)|(b"}
    scene.require("acme/*", verifiers=[{"name": "ci", "cosign": {"identities": [identity]}}])

    assert "'a)|(b' is not a regular expression" in str(
        await scene.refusal(scene.pod("acme/app:v1"))
    )
