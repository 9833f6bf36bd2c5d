"""Signed images through a real API server: what is stored, what is denied, what keeps working."""

import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec

import crds
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.fakes import cosignsigner
from tests.fakes.cosignscene import pem
from tests.fakes.registry import OCI_MANIFEST, FakeRegistry, Faults
from tests.fakes.sigstore import canonical
from toolkit.kube.errors import ApiError, NoMatchError
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy import images
from webhooks import imagepinning, imageverification

ROWS = (imagepinning.ROW, imageverification.ROW)
KIND = crds.IMAGE_VERIFICATION_POLICY
POLICY = GroupVersionKind(*KIND.gvk)
pytestmark = pytest.mark.asyncio(loop_scope="module")
POD = GroupVersionKind("", "v1", "Pod")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


@dataclass
class Yard:
    """A namespace with a policy behind the gate, and a registry."""

    gate: Gate
    registry: FakeRegistry
    own: str = "probe"
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    async def open(self) -> None:
        """Install the key and the policy; start the process, wait until it is asked."""
        data = {"cosign.pub": base64.b64encode(pem(self.key)).decode()}
        await self.apply({"apiVersion": "v1", "kind": "Secret", "data": data}, "keys")

        async def served() -> bool:
            # The API server tells of a new kind a moment after it is established.
            with contextlib.suppress(NoMatchError):
                await self.apply(self.policy(), self.gate.namespace)
                return True
            return False

        await self.gate.until(served)
        mine = {"matchLabels": {"kubernetes.io/metadata.name": self.gate.namespace}}
        rows = [replace(row, namespace_selector=mine, everywhere=True) for row in ROWS]
        await self.gate.start(*rows)
        probe = self.push("app")
        self.registry.counts.clear()

        async def pins() -> bool:
            signed = await self.stored(self.pod("app:v1"), dry_run=True)
            return isinstance(signed, str) and "is not signed" in signed

        async def verifies() -> bool:
            found = await self.stored(self.pod(f"app@{probe}"), dry_run=True)
            return isinstance(found, str) and "is not signed" in found

        await self.gate.until(pins)
        await self.gate.until(verifies)
        self.registry.counts.clear()

    async def close(self) -> None:
        """Let the policy hold for nobody else."""
        await self.gate.admin.delete(POLICY, self.gate.namespace)

    def policy(self, **spec: Any) -> Json:
        """Return the policy, for the namespace of the test."""
        mine = {"matchLabels": {"kubernetes.io/metadata.name": self.gate.namespace}}
        body = {
            "namespaceSelector": mine,
            "images": [f"{self.registry.host}/team/**"],
            "verifiers": [{"name": "release", "cosign": {"secretRef": {"name": "keys"}}}],
            "registry": {"insecure": True},
            **spec,
        }
        return {"apiVersion": KIND.api_version, "kind": KIND.kind, "spec": body}

    def push(self, name: str, tag: str = "v1", *, signed: bool = False) -> str:
        """Push an image of its own content, and return its digest."""
        name = self._repository(name)
        digest = str(self.registry.push(name, tag, [f"{name}:{tag}".encode()])["digest"])
        if signed:
            bundle = canonical(cosignsigner.keyed(self.key, digest))
            layers = [self.registry.put_blob(bundle, cosignsigner.BUNDLE)]
            subject = {"mediaType": OCI_MANIFEST, "digest": digest, "size": 1}
            self.registry.push(name, "", layers, artifact_type=cosignsigner.BUNDLE, subject=subject)
        return digest

    def name(self, image: str) -> str:
        """Return the whole name of an image."""
        return f"{self.registry.host}/{self._repository(image)}"

    def _repository(self, name: str) -> str:
        """Return what the policy names, unless it is said that it does not."""
        return f"{self.own}/{name}" if name.startswith("free") else f"team/{self.own}/{name}"

    def pod(self, image: str) -> Json:
        """Return a Pod."""
        return {"apiVersion": "v1", "kind": "Pod", "spec": self.spec(image)}

    def spec(self, image: str) -> Json:
        """Return a spec of Pods."""
        containers = [{"name": "app", "image": self.name(image)}]
        return {"containers": containers, "terminationGracePeriodSeconds": 0}

    def deployment(self, image: str) -> Json:
        """Return a Deployment of one Pod, with all that kubectl needs."""
        labels = {"app": self.own}
        template = {"metadata": {"labels": labels}, "spec": self.spec(image)}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.own, "namespace": self.gate.namespace},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        }

    async def apply(self, obj: Json, name: str, *, dry_run: bool = False) -> Json:
        """Apply an object under a name of the namespace."""
        metadata = {"name": name, **obj.get("metadata", {})}
        if obj["kind"] != KIND.kind:
            metadata["namespace"] = self.gate.namespace
        found = {**obj, "metadata": metadata}
        return (await self.gate.admin.apply(found, manager="test", dry_run=dry_run)).object

    async def stored(self, obj: Json, name: str = "", *, dry_run: bool = False) -> Json | str:
        """Apply an object and return what is stored, or the denial."""
        try:
            return await self.apply(obj, name or self.own, dry_run=dry_run)
        except ApiError as exc:
            return str(exc)

    async def live(self, gvk: GroupVersionKind) -> Json:
        """Return an object as it is stored."""
        return await self.gate.admin.get(gvk, self.own, self.gate.namespace)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Yard]:
    """One process for all tests here: each has images and objects of its own."""
    del definitions
    async with opened(control_plane) as gate, FakeRegistry() as registry:
        made = Yard(gate, registry)
        try:
            await made.open()
            yield made
        finally:
            await made.close()


@pytest.fixture
def yard(shared: Yard) -> Yard:
    """Give a test repositories and a name of its own."""
    shared.registry.faults = Faults()
    return replace(shared, own=f"web-{secrets.token_hex(3)}")


def texts(obj: Mapping[str, Any]) -> list[str]:
    return [image.text for image in images.images(obj)]


async def test_signed_image_runs_by_its_digest_and_an_unsigned_one_does_not(yard: Yard) -> None:
    digest = yard.push("app", signed=True)
    yard.push("evil")

    line = ("run", f"{yard.own}-evil", f"--image={yard.name('evil:v1')}")
    ran = await yard.gate.kubectl.run("run", yard.own, f"--image={yard.name('app:v1')}")
    denied = await yard.gate.kubectl.refused(*line)

    assert ran.strip() == f"pod/{yard.own} created"
    assert texts(await yard.live(POD)) == [f"{yard.name('app:v1')}@{digest}"]
    assert f"container '{yard.own}-evil': image '{yard.name('evil:v1')}'" in denied
    assert "step 1" in denied
    assert f"(ImageVerificationPolicy '{yard.gate.namespace}')" in denied


async def test_workload_is_rolled_out_and_scaled_while_the_registry_is_away(yard: Yard) -> None:
    digest = yard.push("app", signed=True)
    pinned = f"{yard.name('app:v1')}@{digest}"
    applied = await yard.gate.apply(yard.deployment("app:v1"))
    assert applied.strip() == f"deployment.apps/{yard.own} created"
    yard.registry.faults.statuses = [("manifests", 503, {})] * 99

    scaled = await yard.gate.kubectl.run("scale", f"deployment/{yard.own}", "--replicas=3")

    async def pods() -> list[Json]:
        found = await yard.gate.admin.list(
            POD, yard.gate.namespace, label_selector=f"app={yard.own}"
        )
        return found if len(found) == 3 else []

    assert scaled.strip() == f"deployment.apps/{yard.own} scaled"
    running = await yard.gate.until(pods)
    assert {text for pod in running for text in texts(pod)} == {pinned}


async def test_manifest_that_is_applied_again_changes_nothing(yard: Yard) -> None:
    yard.push("app", signed=True)
    manifest = yard.deployment("app:v1")
    await yard.gate.apply(manifest)
    before = await yard.live(DEPLOYMENT)
    yard.push("app", "v1")

    server_side = await yard.gate.apply(
        manifest, flags=("--server-side", "--force-conflicts", "--field-manager=other")
    )
    again = await yard.gate.apply(manifest)
    difference = await yard.gate.kubectl.run("diff", obj=manifest)

    after = await yard.live(DEPLOYMENT)
    assert "serverside-applied" in server_side
    assert "configured" in again
    assert difference == ""
    assert after["spec"] == before["spec"]


async def test_job_that_is_applied_again_is_not_taken_for_another(yard: Yard) -> None:
    yard.push("app", signed=True)
    template = {"spec": {**yard.spec("app:v1"), "restartPolicy": "Never"}}
    metadata = {"name": yard.own, "namespace": yard.gate.namespace}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    job["spec"] = {"template": template}
    created = await yard.gate.apply(job)

    again = await yard.gate.apply(job)

    assert created.strip() == f"job.batch/{yard.own} created"
    assert again.strip() == f"job.batch/{yard.own} configured"


async def test_other_image_is_set_only_if_it_is_signed(yard: Yard) -> None:
    yard.push("app", signed=True)
    newer = yard.push("app", "v2", signed=True)
    yard.push("evil")
    await yard.gate.apply(yard.deployment("app:v1"))

    good = await yard.gate.kubectl.run(
        "set", "image", f"deploy/{yard.own}", f"app={yard.name('app:v2')}"
    )
    evil = await yard.gate.kubectl.refused(
        "set", "image", f"deploy/{yard.own}", f"app={yard.name('evil:v1')}"
    )

    assert "image updated" in good
    assert "container 'app': image" in evil
    assert texts(await yard.live(DEPLOYMENT)) == [f"{yard.name('app:v2')}@{newer}"]


async def test_container_for_debugging_needs_a_signature_too(yard: Yard) -> None:
    yard.push("app", signed=True)
    debug = yard.push("debug", signed=True)
    yard.push("evil")
    await yard.apply(yard.pod("app:v1"), yard.own)
    line = ("debug", yard.own, "--quiet", "--attach=false", "--profile=general")

    evil = await yard.gate.kubectl.refused(*line, "-c", "evil", f"--image={yard.name('evil:v1')}")
    await yard.gate.kubectl.run(*line, "-c", "debug", f"--image={yard.name('debug:v1')}")

    assert "ephemeral container 'evil': image" in evil
    found = dig(await yard.live(POD), "spec", "ephemeralContainers")
    assert [each["image"] for each in found] == [f"{yard.name('debug:v1')}@{debug}"]


async def test_id_of_an_image_on_the_node_is_refused_wherever_it_is_written(yard: Yard) -> None:
    yard.push("app", signed=True)
    await yard.apply(yard.pod("app:v1"), yard.own)
    spec = yard.spec("app:v1")
    full, short = f"sha256:{secrets.token_hex(32)}", f"sha256:{secrets.token_hex(4)}"
    setup = [{"name": "setup", "image": short}]
    volume = [{"name": "data", "image": {"reference": full}}]
    run = {**yard.pod("app:v1"), "spec": {**spec, "containers": [{"name": "app", "image": full}]}}
    template = yard.deployment("app:v1")
    template["spec"]["template"]["spec"] = {**spec, "initContainers": setup}
    mounted = {**yard.pod("app:v1"), "spec": {**spec, "volumes": volume}}
    debug = ("debug", yard.own, "--quiet", "--attach=false", "--profile=general", "-c", "debug")

    denials = [
        str(await yard.stored(run, "by-id", dry_run=True)),
        str(await yard.stored(template, dry_run=True)),
        str(await yard.stored(mounted, "mounted", dry_run=True)),
        await yard.gate.kubectl.refused(*debug, f"--image={full}"),
    ]

    for denied in denials:
        assert "may take it as the ID of any image on the node" in denied
    owners = ("container 'app'", "init container 'setup'", "volume 'data'", "ephemeral container")
    assert all(owner in denied for owner, denied in zip(owners, denials, strict=True))


async def test_dry_run_tells_what_would_be_stored(yard: Yard) -> None:
    digest = yard.push("app", signed=True)
    yard.push("evil")

    good = await yard.stored(yard.pod("app:v1"), dry_run=True)
    evil = await yard.stored(yard.pod("evil:v1"), dry_run=True)

    assert isinstance(good, dict)
    assert texts(good) == [f"{yard.name('app:v1')}@{digest}"]
    assert "is not signed" in str(evil)


async def test_job_that_is_nested_in_a_cron_job_is_pinned(yard: Yard) -> None:
    digest = yard.push("app", signed=True)
    pod = {**yard.spec("app:v1"), "restartPolicy": "Never"}
    job = {"spec": {"template": {"spec": pod}}}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "spec": {"schedule": "0 3 * * *", "jobTemplate": job},
    }

    stored = await yard.stored(cron, "nightly")

    assert isinstance(stored, dict)
    assert texts(stored) == [f"{yard.name('app:v1')}@{digest}"]


async def test_label_on_the_namespace_is_no_way_out(yard: Yard) -> None:
    yard.push("evil")
    namespace = yard.gate.namespace

    labels = ("kubernetes.io/metadata.name=free", "policy.penstock.dev/verify=false")
    labelled = await yard.gate.kubectl.run("label", "--overwrite", "namespace", namespace, *labels)

    assert labelled.strip() == f"namespace/{namespace} labeled"
    assert "is not signed" in str(await yard.stored(yard.pod("evil:v1")))


async def test_thing_that_ran_before_the_policy_can_be_changed_and_deleted(yard: Yard) -> None:
    yard.push("free")
    await yard.apply(yard.pod("free:v1"), yard.own)
    await yard.apply(yard.policy(images=[yard.name("free")]), yard.own)

    async def holds() -> bool:
        found = await yard.stored(yard.pod("free:v1"), "probe", dry_run=True)
        return "is not signed" in str(found)

    await yard.gate.until(holds)
    labelled = await yard.gate.kubectl.run("label", "pod", yard.own, "step=2")
    deleted = await yard.gate.kubectl.run("delete", "pod", yard.own, "--wait=false")

    await yard.gate.admin.delete(POLICY, yard.own)
    assert labelled.strip() == f"pod/{yard.own} labeled"
    assert "deleted" in deleted


async def test_pod_of_more_images_than_are_verified_is_denied(yard: Yard) -> None:
    pod = yard.pod("free:v1")
    pod["spec"]["initContainers"] = [
        {"name": f"c{number}", "image": f"elsewhere.example/c{number}"} for number in range(1100)
    ]

    denied = await yard.stored(pod, dry_run=True)

    assert isinstance(denied, str)
    assert "only 1000 new images of one object are verified" in denied
