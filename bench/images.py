"""Images for the admission bench: a registry with one that is signed, and the policy about it.

The signature is a real one in cosign's format, by a key that is made for the run.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from bench import work
from cli.stack import stack
from tests.fakes import cosignsigner
from tests.fakes.cosignscene import pem
from tests.fakes.registry import OCI_MANIFEST, FakeRegistry
from tests.fakes.sigstore import canonical
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json

POLICY: Final = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ImageVerificationPolicy")
NAME: Final = "bench"
_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_KEYS: Final = "bench-keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Whole names: one image by its tag and by its digest, and another that nobody signed."""

    tagged: str
    pinned: str
    unsigned: str


@asynccontextmanager
async def served(api: client.Client, *, namespaces: tuple[str, ...]) -> AsyncIterator[Images]:
    """Serve the images and demand their signature in some namespaces, until the block ends."""
    key = ec.generate_private_key(ec.SECP256R1())
    async with FakeRegistry() as registry:
        digest = _push(registry, "signed", key)
        _push(registry, "unsigned", None)
        await api.apply(_keys(key), manager=NAME)
        await api.apply(_policy(f"{registry.host}/**", namespaces), manager=NAME)
        try:
            yield Images(
                tagged=f"{registry.host}/signed:v1",
                pinned=f"{registry.host}/signed@{digest}",
                unsigned=f"{registry.host}/unsigned:v1",
            )
        finally:
            await work.delete(api, (POLICY, NAME, ""), (_SECRET, _KEYS, stack.NAMESPACE))


def _push(registry: FakeRegistry, name: str, key: ec.EllipticCurvePrivateKey | None) -> str:
    digest = str(registry.push(name, "v1", [name.encode()])["digest"])
    if key is not None:
        bundle = canonical(cosignsigner.keyed(key, digest))
        registry.push(
            name,
            "",
            [registry.put_blob(bundle, cosignsigner.BUNDLE)],
            artifact_type=cosignsigner.BUNDLE,
            subject={"mediaType": OCI_MANIFEST, "digest": digest, "size": 1},
        )
    return digest


def _keys(key: ec.EllipticCurvePrivateKey) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _KEYS, "namespace": stack.NAMESPACE},
        "data": {"cosign.pub": base64.b64encode(pem(key)).decode()},
    }


def _policy(images: str, namespaces: tuple[str, ...]) -> Json:
    mine = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    return {
        "apiVersion": POLICY.api_version,
        "kind": POLICY.kind,
        "metadata": {"name": NAME},
        "spec": {
            "namespaceSelector": {"matchExpressions": [mine]},
            "images": [images],
            "verifiers": [{"name": "release", "cosign": {"secretRef": {"name": _KEYS}}}],
            "registry": {"insecure": True},
        },
    }
