"""GitOps without Git: artifacts are pushed and signed, and a tag selects the running one."""

import base64
import io
from datetime import UTC, datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cli import errors, status
from cli.artifacts import access, address, document, packing, pushing, signing
from cli.artifacts.access import Access
from cli.demo import narration, sample
from cli.demo.stage import Stage
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

KIOSK: Final = "kiosk"
SOURCE: Final = ObjectRef(
    GroupVersionKind("source.toolkit.fluxcd.io", "v1", "OCIRepository"), sample.NAMESPACE, KIOSK
)
APPLIER: Final = ObjectRef(sample.KUSTOMIZATION.gvk, sample.NAMESPACE, KIOSK)
PRICES: Final = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), sample.SHOP, KIOSK)
_ACCESS: Final = Access(insecure=True, timeout=60)


async def follow_tag(stage: Stage) -> None:
    """Push and sign two artifacts; move a tag to the first, to the second, and back."""
    narration.chapter("10. Without Git: a tag in a registry says what runs")
    key = ec.generate_private_key(ec.SECP256R1())
    url = f"oci://{stage.registry}/{KIOSK}"
    first = await push(key, f"{url}:1.0", "1 coin")
    second = await push(key, f"{url}:2.0", "2 coins")
    await _tag(f"{url}:1.0", "stable")
    await stage.kubectl.apply(*_objects(url, key))
    step = narration.step("penstock push --key, tag 1.0 as stable: verified, applied")
    for clock, tag, digest, price in (
        (step, "1.0", first, "1 coin"),
        (narration.step("penstock tag 2.0 as stable: promoted"), "2.0", second, "2 coins"),
        (narration.step("penstock tag 1.0 as stable: rolled back"), "1.0", first, "1 coin"),
    ):
        with clock:
            await _tag(f"{url}:{tag}", "stable")
            message = await _followed(stage, digest, price)
    narration.tell(narration.quote(message))


async def _followed(stage: Stage, digest: str, price: str) -> str:
    """Wait until the cluster runs an artifact; return its signer."""

    def there(obj: Json | None) -> bool:
        return obj is not None and status.settled(obj) and digest in status.revision(obj)

    moment = datetime.now(UTC).isoformat()
    body: Json = {"metadata": {"annotations": {status.REQUESTED_AT: moment}}}
    await stage.session.api.patch(SOURCE.gvk, SOURCE.name, SOURCE.namespace, body, strategy="merge")
    source = await stage.until(SOURCE, there, "the tag was not followed")
    await stage.until(APPLIER, there, "the artifact was not applied")
    prices = await stage.session.api.get(PRICES.gvk, PRICES.name, PRICES.namespace)
    message = str(status.condition(source, "SourceVerified").get("message"))
    if digest not in message or dig(prices, "data", "tea") != price:
        raise errors.FailedError("the cluster does not run what the tag says")
    return message


async def push(key: ec.EllipticCurvePrivateKey, url: str, price: str) -> str:
    """Push and sign a manifest; return the digest."""
    where = address.parse(url)
    revision = f"{where.tag}@sha1:{'0' * 40}"
    says = document.annotations("the demo", revision, (), now=datetime.now(UTC))

    async def sign(digest: str) -> bytes:
        return signing.with_key(key, digest)

    stdin = io.BytesIO(sample.config_map(KIOSK, tea=price).encode())
    with packing.packed(packing.STDIN, stdin, ignored=packing.IGNORED, resolve=False) as content:
        async with access.opened(_ACCESS, where.repository) as publisher:
            return (await pushing.push(publisher, where, content, says, sign=sign)).digest


async def _tag(url: str, tag: str) -> None:
    where = address.parse(url)
    async with access.opened(_ACCESS, where.repository) as publisher:
        await publisher.tag(where.repository, where.reference, tag)


def _objects(url: str, key: ec.EllipticCurvePrivateKey) -> tuple[Json, ...]:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": KIOSK, "namespace": sample.NAMESPACE},
            "data": {"kiosk.pub": base64.b64encode(public).decode()},
        },
        sample.custom(
            SOURCE,
            {
                "interval": "10m",
                "url": url,
                "insecure": True,
                "ref": {"tag": "stable"},
                "verify": {"provider": "cosign", "secretRef": {"name": KIOSK}},
            },
        ),
        sample.custom(
            APPLIER,
            {
                "interval": "10m",
                "retryInterval": "2s",
                "sourceRef": {"kind": "OCIRepository", "name": KIOSK},
                "prune": True,
            },
        ),
    )
