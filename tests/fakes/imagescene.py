"""Images in a registry, policies about them, and both phases of admission without an API server.

::

    digest = scene.push("acme/app", "v1")
    scene.sign("acme/app", digest)
    scene.require("acme/*")
    stored = await scene.admit(scene.pod("acme/app:v1"))
"""

import base64
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes import admission, cosignsigner
from tests.fakes.admission import NAMESPACE, FakeCluster
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.cosignscene import pem
from tests.fakes.cosignsigner import BUNDLE
from tests.fakes.registry import OCI_MANIFEST, FakeRegistry
from tests.fakes.sigstore import SigningKey, canonical
from toolkit.errors import PenstockError
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from toolkit.policy import images
from toolkit.remote.http.http import Http
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.notation.judge import Revocations
from toolkit.verify.verifications import Means, Verifications
from webhooks.imagepinning import ImagePinning
from webhooks.imageverification import ImageVerification
from webhooks.plugin import Answer
from webhooks.request import Request

KEY: Final = ec.generate_private_key(ec.SECP256R1())
STRANGER: Final = ec.generate_private_key(ec.SECP256R1())
KEYS: Final = {"keys": KEY, "strangers": STRANGER}
"""Keys by the Secrets that hold their public halves."""


@dataclass(frozen=True, kw_only=True)
class ImageScene:
    """Everything around the two plugins."""

    registry: FakeRegistry
    cluster: FakeCluster
    api: FakeApiServer
    pinning: ImagePinning
    verification: ImageVerification

    def push(self, name: str, tag: str = "v1", content: bytes = b"layer") -> str:
        """Push an image and return its digest."""
        return str(self.registry.push(name, tag, [content])["digest"])

    def sign(self, name: str, digest: str, key: SigningKey = KEY, *, says: str = "") -> None:
        """Attach a signature to an image; ``says`` is the digest that it is made for."""
        sign(self.registry, name, digest, key, says=says)

    def signed(self, name: str, tag: str = "v1", content: bytes = b"layer") -> str:
        """Push an image that the right key signed, and return its digest."""
        digest = self.push(name, tag, content)
        self.sign(name, digest)
        return digest

    def require(self, *patterns: str, policy: str = "signed", **spec: Any) -> Json:
        """Demand signatures by ``KEY``; patterns without a host are of the registry."""
        body = {
            "images": [self._named(pattern) for pattern in patterns],
            "verifiers": [verifier("release")],
            "registry": {"insecure": True},
            **spec,
        }
        obj = {
            "apiVersion": "policy.penstock.dev/v1alpha1",
            "kind": "ImageVerificationPolicy",
            "metadata": {"name": policy, "uid": policy, "generation": 1},
            "spec": body,
        }
        self.cluster.put(obj)
        return obj

    def name(self, image: str) -> str:
        """Return the whole name of an image of the registry."""
        return f"{self.registry.host}/{image}"

    def pod(self, *texts: str, **spec: Any) -> Json:
        """Return a Pod of images in the registry, or with a registry of their own."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "apps"},
            "spec": self.spec(*texts, **spec),
        }

    def spec(self, *texts: str, **more: Any) -> Json:
        """Return a spec of Pods."""
        containers = [{"name": f"c{n}", "image": self._named(text)} for n, text in enumerate(texts)]
        return {"containers": containers, **more}

    def secret(self, name: str, data: Mapping[str, bytes], namespace: str = "apps") -> None:
        """Put a Secret into the cluster."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        self.api.put("secrets", name, namespace, data=encoded)

    async def admit(self, obj: Json, old: Json | None = None, **how: Any) -> Json:
        """Return what is stored in the end; fail if it is denied."""
        return (await self.answer(obj, old, **how))[0]

    async def answer(
        self, obj: Json, old: Json | None = None, **how: Any
    ) -> tuple[Json, Answer, Answer]:
        """Ask both phases, and return what is stored with their answers."""
        asked = admission.request(obj, old=old, **how)
        pinned = await admission.admitted(self.pinning, asked)
        final = replace(asked, object=pinned.object or obj)
        verified = await admission.admitted(self.verification, final)
        assert final.object is not None
        return final.object, pinned, verified

    async def refusal(self, obj: Json, old: Json | None = None, **how: Any) -> PenstockError:
        """Return what the object is denied with in either phase; fail if it is not."""
        asked = admission.request(obj, old=old, **how)
        try:
            pinned = await self.pinning.review(asked)
        except PenstockError as exc:
            return exc
        return await self.final_refusal(replace(asked, object=pinned.object or obj))

    async def final_refusal(self, asked: Request) -> PenstockError:
        """Return what the second phase alone denies a request with."""
        return await admission.denied(self.verification, asked)

    @property
    def asked(self) -> int:
        """Return how many requests the registry got."""
        return self.registry.counts.total()

    @property
    def counts(self) -> Counter[str]:
        """Return how many requests of each kind it got."""
        return self.registry.counts

    def _named(self, text: str) -> str:
        first = text.partition("/")[0]
        return text if {".", ":", "*"} & set(first) or "/" not in text else self.name(text)


def sign(
    registry: FakeRegistry, name: str, digest: str, key: SigningKey = KEY, *, says: str = ""
) -> None:
    """Attach a signature to an image; ``says`` is the digest that it is made for."""
    bundle = canonical(cosignsigner.keyed(key, says or digest))
    registry.push(
        name,
        "",
        [registry.put_blob(bundle, BUNDLE)],
        artifact_type=BUNDLE,
        subject={"mediaType": OCI_MANIFEST, "digest": digest, "size": 1},
    )


def verifier(name: str, keys: str = "keys") -> Json:
    """Return a verifier of a policy: a public key in a Secret."""
    return {"name": name, "cosign": {"secretRef": {"name": keys}}}


def texts(obj: Json) -> list[str]:
    """Return the images of an object."""
    return [image.text for image in images.images(obj)]


@asynccontextmanager
async def running(
    registry: FakeRegistry,
    *,
    clock: Callable[[], float] = time.monotonic,
    pool: WorkerPool | None = None,
    revocations: Revocations | None = None,
) -> AsyncIterator[ImageScene]:
    """Run the scene around a registry: the namespace is ``apps``, the keys are there.

    ``pool`` and ``revocations`` are for Notation alone; ``clock`` is that of kept proofs.
    """
    api, namespace = FakeApiServer(), {"metadata": {"name": "apps", "labels": {"tier": "prod"}}}
    cluster = FakeCluster([{"apiVersion": "v1", "kind": "Namespace", **namespace}])
    api.kinds |= {("", "v1", "serviceaccounts"): "ServiceAccount"}
    api.kinds |= {("", "v1", "namespaces"): "Namespace"}
    means = Means(
        public_root=PublicRoot(offline=True),
        pool=pool,  # type: ignore[arg-type]  # only for Notation
        revocations=revocations,  # type: ignore[arg-type]  # likewise
    )
    async with Http() as http, api.running() as client:
        services = admission.services(
            cluster=cluster,
            client=client,
            http=http,
            verifications=Verifications(means, clock=clock),
        )
        scene = ImageScene(
            registry=registry,
            cluster=cluster,
            api=api,
            pinning=ImagePinning.make(services),
            verification=ImageVerification.make(services),
        )
        for name, key in KEYS.items():
            scene.secret(name, {"cosign.pub": pem(key)}, NAMESPACE)
        yield scene
