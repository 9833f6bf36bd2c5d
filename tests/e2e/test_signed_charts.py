"""Charts as helm pushes them, signed by the real cosign and the Notary Project's own signer.

The registry is the reference one. It has no referrers API, so signatures that refer to a chart are
listed under the tag that the OCI distribution specification gives them.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.e2e.conftest import Space, condition, is_ready
from tests.e2e.helmsources import HELM_CHART, helm_chart, repository
from tests.e2e.sources import content, secret
from tests.fakes import distribution, notary
from tests.fakes.charts import chart, write
from tests.fakes.registry import OCI_MANIFEST
from tests.fakes.revocation import Authority
from tests.fakes.sigstore import Sigstore
from tests.tools import cosigncases, notationsign
from tests.tools.cosigncases import Case, Cosign
from tests.tools.helmcli import Helm, beside
from toolkit.objects import Json

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("notation_sign_program"),
]

INDEX = "application/vnd.oci.image.index.v1+json"
VERSION = "6.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """A way to sign: what does it, what a Secret must hold to trust it, and whom that names."""

    provider: str
    sign: Callable[[str], Awaitable[None]]
    trusted: Mapping[str, bytes]
    signer: str
    stranger: Callable[[str], Awaitable[None]]
    """Signs in the same way, and nobody trusts it."""
    steps: Mapping[str, int]
    """The step of the proof that refuses a chart."""


def by_cosign(cosign: Cosign, keys: Path, *, legacy: bool) -> Signing:
    public = (keys / "p256.pub").read_bytes()
    der = base64.b64decode(b"".join(public.splitlines()[1:-1]))
    return Signing(
        provider="cosign",
        sign=lambda reference: cosign.sign(reference, Case(key="p256", legacy=legacy)),
        trusted={"release.pub": public},
        signer=f"key release.pub (SHA256:{sha256(der).hexdigest()})",
        stranger=lambda reference: cosign.sign(reference, Case(key="p384", legacy=legacy)),
        steps={"unsigned": 1, "moved": 4, "strange": 5},
    )


def by_notation(media_type: str) -> Signing:
    authority, others = Authority(), Authority()

    async def sign(reference: str, by: Authority = authority) -> None:
        await asyncio.to_thread(notationsign.push, by.certify(), reference, media_type)

    document = notary.document(scopes=("*",), stores=("ca:x",))
    return Signing(
        provider="notation",
        sign=sign,
        trusted={"trustpolicy.json": document, **notary.trust(authority)},
        signer="CN=Signer,O=Example,ST=WA,C=US",
        stranger=lambda reference: sign(reference, others),
        steps={"unsigned": 2, "strange": 5, "moved": 9},
    )


NAMES = ("trusted", "strange", "unsigned", "moved")


@pytest_asyncio.fixture(
    loop_scope="session",
    # The other forms of both are read by the same proofs (``conformance/{cosign,notation}``).
    params=["cosign", next(iter(notationsign.FORMATS))],
)
async def signing(
    request: pytest.FixtureRequest, cosign_program: Path, tmp_path: Path
) -> AsyncIterator[Signing]:
    if media_type := notationsign.FORMATS.get(request.param):
        yield by_notation(media_type)
        return
    keys = tmp_path / "keys"
    keys.mkdir()
    async with cosigncases.ready(cosign_program, keys, Sigstore()) as cosign:
        for key in ("p256", "p384"):
            await cosign.make_key(key)
        yield by_cosign(cosign, keys, legacy="legacy" in request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def host(registry_program: Path, tmp_path: Path) -> AsyncIterator[str]:
    async with distribution.serve(registry_program, tmp_path / "registry") as running:
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The repository ``charts`` of a registry, as its users and its thieves see it."""

    host: str
    web: aiohttp.ClientSession

    def name(self, chart: str) -> str:
        """Return a chart's name with the registry's."""
        return f"{self.host}/charts/{chart}"

    async def reference(self, chart: str) -> str:
        """Return the name and the digest of a chart."""
        return f"{self.name(chart)}@{(await self._described(chart, VERSION))['digest']}"

    async def move_signature(self, source: str, target: str) -> None:
        """Attach the signatures of one chart to another, without making any."""
        signed = await self._described(source, VERSION)
        other = await self._described(target, VERSION)
        beside = signed["digest"].replace(":", "-")
        async with self.web.get(self._place(source, "tags/list")) as answer:
            [tag] = [tag for tag in (await answer.json())["tags"] if tag.startswith(beside)]
        listed = await self._manifest(source, tag)
        for entry in listed.get("manifests", []):
            manifest = await self._manifest(source, entry["digest"])
            entry.update(await self._copy({**manifest, "subject": other}, source, target, ""))
        tag = tag.replace(beside, other["digest"].replace(":", "-"))
        await self._copy(listed, source, target, tag)

    async def _copy(self, manifest: Json, source: str, target: str, tag: str) -> Json:
        """Put a manifest into another repository, with the blobs that it names."""
        for blob in [manifest.get("config"), *manifest.get("layers", [])]:
            if blob:
                mount = {"mount": blob["digest"], "from": f"charts/{source}"}
                place = self._place(target, "blobs/uploads/")
                async with self.web.post(place, params=mount) as answer:
                    assert answer.status == 201, await answer.text()
        raw = json.dumps(manifest).encode()
        digest = f"sha256:{sha256(raw).hexdigest()}"
        kind = {"Content-Type": manifest["mediaType"]}
        place = self._place(target, f"manifests/{tag or digest}")
        async with self.web.put(place, data=raw, headers=kind) as answer:
            assert answer.status == 201, await answer.text()
        return {"mediaType": manifest["mediaType"], "digest": digest, "size": len(raw)}

    async def _manifest(self, chart: str, reference: str) -> Json:
        accept = {"Accept": f"{OCI_MANIFEST}, {INDEX}"}
        place = self._place(chart, f"manifests/{reference}")
        async with self.web.get(place, headers=accept) as answer:
            assert answer.status == 200, await answer.text()
            found: Json = json.loads(await answer.read())
            return found

    async def _described(self, chart: str, reference: str) -> Json:
        place = self._place(chart, f"manifests/{reference}")
        async with self.web.head(place, headers={"Accept": OCI_MANIFEST}) as answer:
            assert answer.status == 200
            return {
                "mediaType": answer.headers["Content-Type"],
                "digest": answer.headers["Docker-Content-Digest"],
                "size": int(answer.headers["Content-Length"]),
            }

    def _place(self, chart: str, path: str) -> str:
        return f"http://{self.host}/v2/charts/{chart}/{path}"


@pytest_asyncio.fixture(loop_scope="session")
async def charts(host: str, helm: Helm, tmp_path: Path) -> AsyncIterator[Charts]:
    """Push four charts as users do."""
    for name in NAMES:
        helm("package", write(tmp_path / name, chart(name, VERSION)), "-d", tmp_path)
        package = tmp_path / f"{name}-{VERSION}.tgz"
        await beside(helm, "push", package, f"oci://{host}/charts", "--plain-http")
    async with aiohttp.ClientSession() as web:
        yield Charts(host=host, web=web)


async def test_chart_is_offered_only_as_signed_by_who_is_trusted(
    space: Space, charts: Charts, signing: Signing
) -> None:
    await signing.sign(await charts.reference("trusted"))
    await signing.stranger(await charts.reference("strange"))
    await charts.move_signature("trusted", "moved")

    await space.world.apply(
        secret(space, "trusted", signing.trusted),
        repository(space, f"oci://{charts.host}/charts", type="oci", insecure=True),
        *(
            helm_chart(
                space,
                name,
                chart=name,
                version=VERSION,
                verify={"provider": signing.provider, "secretRef": {"name": "trusted"}},
            )
            for name in NAMES
        ),
    )
    offered = await space.world.until(HELM_CHART, space.namespace, "trusted", is_ready)
    refused = {name: await space.refused(HELM_CHART, name) for name in NAMES[1:]}

    said = condition(offered, "SourceVerified")
    expected = f"verified signature of {await charts.reference('trusted')} by {signing.signer}"
    assert said["status"] == "True"
    assert said["message"].startswith(expected)
    metadata = offered["status"]["artifact"]["metadata"]
    assert metadata["source.penstock.dev/verified"] == said["message"]
    assert f"version: {VERSION}" in (await content(offered))["trusted/Chart.yaml"]
    for name, obj in refused.items():
        assert condition(obj, "Ready")["reason"] == "ChartVerificationError", name
        said = condition(obj, "SourceVerified")
        assert said["status"] == "False", name
        assert f": step {signing.steps[name]}: " in said["message"], said
        assert "artifact" not in obj["status"], name
