"""Each way around the signature of an image, refused."""

import contextlib
import copy
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import admission
from tests.fakes.imagescene import STRANGER, ImageScene, texts, verifier
from webhooks.plugin import DeniedError

Json = dict[str, Any]
POLICY = "(ImageVerificationPolicy 'signed')"


async def test_signed_tag_is_pinned_to_the_digest_that_was_verified(scene: ImageScene) -> None:
    digest = scene.signed("acme/app")
    scene.require("acme/*")

    stored = await scene.admit(scene.pod("acme/app:v1"))

    assert texts(stored) == [f"{scene.name('acme/app:v1')}@{digest}"]


async def test_unsigned_image_is_refused_with_container_image_policy_and_step(
    scene: ImageScene,
) -> None:
    digest = scene.push("acme/app")
    scene.require("acme/*")

    refusal = await scene.refusal(scene.pod("acme/app:v1"))

    assert isinstance(refusal, DeniedError)
    assert refusal.code == 403
    assert str(refusal) == (
        f"container 'c0': image '{scene.name('acme/app:v1')}': verifier 'release': step 1: "
        f"{scene.name('acme/app')}@{digest} is not signed: no signature is attached to it {POLICY}"
    )
    assert [cause.field for cause in refusal.causes] == ["spec.containers[0].image"]


async def test_image_that_another_signed_is_refused(scene: ImageScene) -> None:
    scene.sign("acme/app", scene.push("acme/app"), STRANGER)
    scene.require("acme/*")

    assert "step 5" in str(await scene.refusal(scene.pod("acme/app:v1")))


async def test_signature_that_was_copied_from_another_image_is_refused(scene: ImageScene) -> None:
    good = scene.signed("acme/app")
    evil = scene.push("acme/evil", content=b"evil")
    scene.sign("acme/evil", evil, says=good)
    scene.require("acme/*")

    assert "step 4" in str(await scene.refusal(scene.pod("acme/evil:v1")))


async def test_tag_that_moves_between_the_phases_changes_nothing(scene: ImageScene) -> None:
    good = scene.signed("acme/app")
    scene.require("acme/*")
    asked = admission.request(scene.pod("acme/app:v1"))
    pinned = await admission.admitted(scene.pinning, asked)
    scene.push("acme/app", "v1", b"evil")

    await admission.admitted(scene.verification, replace(asked, object=pinned.object))

    assert texts(pinned.object or {}) == [f"{scene.name('acme/app:v1')}@{good}"]


async def test_registry_that_answers_everybody_differently_gains_nothing(
    scene: ImageScene,
) -> None:
    good = scene.signed("acme/app")
    evil = scene.push("acme/app", "v1", b"evil")
    scene.require("acme/*")
    answers = [good, evil]

    async def lie(*_: Any) -> None:
        scene.registry.tags["acme/app"]["v1"] = answers.pop(0) if len(answers) > 1 else answers[0]

    scene.registry.faults.hook = lie

    stored = await scene.admit(scene.pod("acme/app:v1"))

    assert texts(stored) == [f"{scene.name('acme/app:v1')}@{good}"]


async def test_tag_that_a_later_plugin_writes_back_is_refused(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    await scene.admit(scene.pod("acme/app:v1"))

    refusal = await scene.final_refusal(admission.request(scene.pod("acme/app:v1")))

    assert "it is named by a tag, which may lead elsewhere" in str(refusal)


async def test_unsigned_digest_that_a_later_plugin_writes_is_refused(scene: ImageScene) -> None:
    evil = scene.push("acme/app", "v2", b"evil")
    scene.require("acme/*")
    changed = scene.pod(f"acme/app:v1@{evil}")

    assert "step 1" in str(await scene.final_refusal(admission.request(changed)))


async def test_of_tag_and_digest_the_digest_is_verified(scene: ImageScene) -> None:
    scene.signed("acme/app", "good")
    evil = scene.push("acme/app", "evil", b"evil")
    scene.require("acme/*")

    assert "step 1" in str(await scene.refusal(scene.pod(f"acme/app:good@{evil}")))


@pytest.mark.parametrize("key", ["initContainers", "ephemeralContainers"])
async def test_unsigned_container_of_any_kind_is_refused(scene: ImageScene, key: str) -> None:
    scene.signed("acme/app")
    scene.push("acme/evil", content=b"evil")
    scene.require("acme/*")
    more = {key: [{"name": "evil", "image": scene.name("acme/evil:v1")}]}

    refusal = str(await scene.refusal(scene.pod("acme/app:v1", **more)))

    what = {"initContainers": "init", "ephemeralContainers": "ephemeral"}[key]
    assert refusal.startswith(f"{what} container 'evil': image ")


async def test_unsigned_image_volume_is_refused(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.push("acme/model", content=b"evil")
    scene.require("acme/*")
    volume = {"name": "model", "image": {"reference": scene.name("acme/model:v1")}}

    refusal = str(await scene.refusal(scene.pod("acme/app:v1", volumes=[volume])))

    assert refusal.startswith("volume 'model': image ")


async def test_unsigned_image_deep_in_a_cron_job_is_refused(scene: ImageScene) -> None:
    scene.push("acme/app")
    scene.require("acme/*")

    refusal = await scene.refusal(cron_job(scene.spec("acme/app:v1")))

    assert isinstance(refusal, DeniedError)
    (cause,) = refusal.causes
    assert cause.field == "spec.jobTemplate.spec.template.spec.containers[0].image"


async def test_ephemeral_container_that_is_added_by_the_subresource_is_verified(
    scene: ImageScene,
) -> None:
    scene.signed("acme/app")
    scene.push("acme/debug", content=b"debug")
    scene.require("acme/*")
    running = await scene.admit(scene.pod("acme/app:v1"))
    changed = copy.deepcopy(running)
    debug = {"name": "debug", "image": scene.name("acme/debug:v1"), "targetContainerName": "c0"}
    changed["spec"]["ephemeralContainers"] = [debug]

    how = {"resource": "pods", "subresource": "ephemeralcontainers"}
    refusal = str(await scene.refusal(changed, running, **how))

    assert refusal.startswith("ephemeral container 'debug': image ")


async def test_old_version_of_a_kind_is_looked_at(scene: ImageScene) -> None:
    scene.push("acme/app")
    scene.require("acme/*")
    template = {"spec": scene.spec("acme/app:v1")}
    old = {
        "apiVersion": "apps/v1beta1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "apps"},
        "spec": {"template": template},
    }

    assert "step 1" in str(await scene.refusal(old))


@pytest.mark.parametrize(
    "spelling",
    ["{host}/Acme/app:v1", "LOCALHOST:{port}/acme/app:v1", " {host}/acme/app:v1", "{host}//app"],
)
async def test_spelling_that_cannot_be_read_is_refused(scene: ImageScene, spelling: str) -> None:
    scene.require("acme/*")
    host = scene.registry.host
    text = spelling.format(host=host, port=host.partition(":")[2])
    pod = scene.pod("x")
    pod["spec"]["containers"][0]["image"] = text

    refusal = str(await scene.refusal(pod))

    assert "cannot be read as an image" in refusal
    assert refusal.startswith("container 'c0': ")


async def test_mirror_of_a_signed_image_needs_the_signer_of_the_mirror(scene: ImageScene) -> None:
    digest = scene.signed("acme/app")
    scene.registry.manifests["mirror/app", digest] = scene.registry.manifests["acme/app", digest]
    scene.sign("mirror/app", digest)
    scene.require("acme/*")
    scene.require("mirror/*", policy="mirror", verifiers=[verifier("mirror", "strangers")])

    refusal = str(await scene.refusal(scene.pod(f"mirror/app@{digest}")))

    assert "verifier 'mirror': step 5" in refusal


async def test_proof_for_one_repository_counts_for_no_other(scene: ImageScene) -> None:
    digest = scene.signed("acme/app")
    scene.registry.manifests["acme/copy", digest] = scene.registry.manifests["acme/app", digest]
    scene.require("acme/*")
    await scene.admit(scene.pod(f"acme/app@{digest}"))

    assert "step 1" in str(await scene.refusal(scene.pod(f"acme/copy@{digest}")))


@pytest.mark.parametrize("place", ["labels", "annotations"])
async def test_nothing_that_is_written_on_the_object_opts_out(
    scene: ImageScene, place: str
) -> None:
    scene.push("acme/app")
    scene.require("acme/*", namespaceSelector={"matchLabels": {"tier": "prod"}})
    pod = scene.pod("acme/app:v1")
    pod["metadata"][place] = {"tier": "dev", "policy.penstock.dev/verify": "false"}

    assert "step 1" in str(await scene.refusal(pod))


async def test_namespace_that_no_cache_knows_yet_is_not_one_without_policies(
    scene: ImageScene,
) -> None:
    scene.push("acme/app")
    scene.require("acme/*", namespaceSelector={"matchLabels": {"tier": "prod"}})
    scene.api.put("namespaces", "new", "", metadata={"labels": {"tier": "prod"}})
    pod = scene.pod("acme/app:v1")
    pod["metadata"]["namespace"] = "new"

    assert "step 1" in str(await scene.refusal(pod))


async def test_namespace_that_cannot_be_read_denies(scene: ImageScene) -> None:
    scene.require("acme/*")
    scene.api.fail("GET", "namespaces/new", 500, times=9)
    pod = scene.pod("acme/app:v1")
    pod["metadata"]["namespace"] = "new"

    await scene.refusal(pod)


def cron_job(spec: Json) -> Json:
    template = {"template": {"spec": spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "apps"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": template}},
    }


class Watched(str):
    """An image's name that tells in which threads it was read."""

    readers: set[int]
    __slots__ = ("readers",)

    def isascii(self) -> bool:
        self.readers.add(threading.get_ident())
        return super().isascii()


def watched(scene: ImageScene, count: int, readers: set[int]) -> Json:
    """Return a Pod of ``count`` image volumes that no policy names."""
    names = [Watched(f"elsewhere.example/a{number}") for number in range(count)]
    for name in names:
        name.readers = readers
    return scene.pod("acme/app:v1", volumes=[{"image": {"reference": name}} for name in names])


async def test_thousands_of_images_are_refused_before_any_is_read(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*", policy="signed")
    readers = set[int]()

    refusal = await scene.refusal(watched(scene, 20_000, readers))

    assert isinstance(refusal, DeniedError)
    assert refusal.code == 403
    assert "only 1000 new images" in str(refusal)
    assert len(str(refusal)) < 1000
    assert (readers, scene.asked) == (set(), 0)


async def test_images_are_read_beside_the_loop(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    readers = set[int]()

    for plugin in (scene.pinning, scene.verification):
        with contextlib.suppress(DeniedError):
            await plugin.review(admission.request(watched(scene, 900, readers)))

    assert readers
    assert threading.get_ident() not in readers


async def test_thousands_of_images_that_were_there_before_block_no_other_change(
    scene: ImageScene,
) -> None:
    pod = scene.pod(
        "acme/app:v1", volumes=[{"image": {"reference": f"a/{n}"}} for n in range(1100)]
    )
    scene.require("acme/*")

    await scene.admit({**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}}, pod)

    assert scene.asked == 0


async def test_policy_that_warns_lets_thousands_of_images_pass_with_a_warning(
    scene: ImageScene,
) -> None:
    scene.require("acme/*", mode="Warn")

    _, _, verified = await scene.answer(watched(scene, 1100, set()))

    assert [warning for warning in verified.warnings if "only 1000 new images" in warning]
