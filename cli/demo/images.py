"""Images forward: a new image becomes a signed commit, which is verified and rolled out."""

from datetime import UTC, datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from cli import errors, status
from cli.demo import gitless, narration, sample
from cli.demo.repository import Repository
from cli.demo.stage import Stage
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

BOOTH: Final = "booth"
_GROUP: Final = "image.toolkit.fluxcd.io"


def _ref(kind: str) -> ObjectRef:
    return ObjectRef(GroupVersionKind(_GROUP, "v1", kind), sample.NAMESPACE, BOOTH)


IMAGES: Final = _ref("ImageRepository")
POLICY: Final = _ref("ImagePolicy")
AUTOMATION: Final = _ref("ImageUpdateAutomation")
SOURCE: Final = ObjectRef(sample.GIT_REPOSITORY.gvk, sample.NAMESPACE, BOOTH)
APPLIER: Final = ObjectRef(sample.KUSTOMIZATION.gvk, sample.NAMESPACE, BOOTH)
DEPLOYMENT: Final = ObjectRef(sample.WEB.gvk, sample.SHOP, BOOTH)


async def follow_image(stage: Stage) -> None:
    """Run an image; push a newer one, which becomes a commit that Penstock signs and applies."""
    narration.chapter("12. A new image becomes a signed commit, and rolls out")
    key = ec.generate_private_key(ec.SECP256R1())
    image = f"{stage.registry}/{BOOTH}"
    served = stage.repository.bare.parents[1]
    repository = await Repository.create(served, BOOTH)
    await repository.accept_pushes()
    await gitless.push(key, f"oci://{image}:1.0.0", "image 1.0.0")
    first = await repository.commit(
        "Build a booth", write={"deploy/booth.yaml": _booth(f"{image}:1.0.0")}, author=stage.author
    )
    url = stage.url.replace(f"{sample.SHOP}.git", f"{BOOTH}.git")
    with narration.step("kubectl apply of image, policy, automation, until 1.0.0 runs") as clock:
        await stage.kubectl.apply(*_objects(stage, url, image))
        await stage.until(APPLIER, lambda obj: _at(obj, first), "1.0.0 does not run")
        await stage.until(AUTOMATION, _settled, "the automation is not ready")
        clock.stop()
    await gitless.push(key, f"oci://{image}:1.1.0", "image 1.1.0")
    with narration.step("image 1.1.0 is pushed: found, committed, verified, rolled out") as clock:
        await _ask(stage, IMAGES)
        message = await _rolled_out(stage, f"{image}:1.1.0")
        clock.stop()
        clock.note = narration.quote(message)
    narration.tell(await repository.subject())


async def _rolled_out(stage: Stage, image: str) -> str:
    """Wait until an image has been committed and runs; return the signer of the commit."""
    automation = await stage.until(
        AUTOMATION, lambda obj: bool(_pushed(obj)), "the image was not committed"
    )
    commit = _pushed(automation)
    await _ask(stage, SOURCE)
    source = await stage.until(SOURCE, lambda obj: _at(obj, commit), "the commit was not fetched")
    await stage.until(APPLIER, lambda obj: _at(obj, commit), "the commit was not applied")
    obj = await stage.session.api.get(DEPLOYMENT.gvk, BOOTH, sample.SHOP)
    containers = dig(obj, "spec", "template", "spec", "containers", default=[{}])
    message = str(status.condition(source, "SourceVerified").get("message"))
    if containers[0].get("image") != image or stage.author.fingerprint not in message:
        raise errors.FailedError("the cluster does not run the image of the signed commit")
    return message


def _settled(obj: Json | None) -> bool:
    return obj is not None and status.settled(obj)


def _at(obj: Json | None, commit: str) -> bool:
    return obj is not None and status.settled(obj) and status.revision(obj).endswith(commit)


def _pushed(obj: Json | None) -> str:
    """Return the commit that an automation has pushed."""
    return str(dig(obj or {}, "status", "lastPushCommit", default=""))


async def _ask(stage: Stage, ref: ObjectRef) -> None:
    """Ask for a look now, as a hook of the registry or of the Git host would."""
    moment = datetime.now(UTC).isoformat()
    body: Json = {"metadata": {"annotations": {status.REQUESTED_AT: moment}}}
    await stage.session.api.patch(ref.gvk, ref.name, ref.namespace, body, strategy="merge")


def _booth(image: str) -> str:
    marker = f'# {{"$imagepolicy": "{sample.NAMESPACE}:{BOOTH}"}}'
    written = sample.web(replicas=1, image="IMAGE").replace("web", BOOTH)
    return written.replace("registry.example.com/IMAGE", f"{image} {marker}")


def _objects(stage: Stage, url: str, image: str) -> tuple[Json, ...]:
    signing = {"type": "ssh", "secretRef": {"name": BOOTH}}
    bot = {"name": "Penstock", "email": stage.author.name}
    return (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": BOOTH, "namespace": sample.NAMESPACE},
            "stringData": {"identity": stage.author.private, "ada.sshpub": stage.author.public},
        },
        sample.custom(
            SOURCE,
            {
                "interval": "10m",
                "url": url,
                "ref": {"branch": "main"},
                "verify": {"mode": "HEAD", "secretRef": {"name": BOOTH}},
            },
        ),
        sample.custom(
            APPLIER,
            {
                "interval": "10m",
                "retryInterval": "2s",
                "sourceRef": {"kind": "GitRepository", "name": BOOTH},
                "path": "./deploy",
                "prune": True,
                "wait": True,
            },
        ),
        sample.custom(IMAGES, {"interval": "1h", "image": image, "insecure": True}),
        sample.custom(
            POLICY,
            {
                "imageRepositoryRef": {"name": BOOTH},
                "policy": {"semver": {"range": ">=1.0.0"}},
            },
        ),
        sample.custom(
            AUTOMATION,
            {
                "interval": "1h",
                "sourceRef": {"kind": "GitRepository", "name": BOOTH},
                "git": {
                    "commit": {
                        "author": bot,
                        "signingKey": signing,
                        "messageTemplate": "Sell from {{ range .Changed.Changes }}"
                        "{{ .NewValue }}{{ end }}",
                    },
                },
                "update": {"path": "./deploy", "strategy": "Setters"},
            },
        ),
    )
