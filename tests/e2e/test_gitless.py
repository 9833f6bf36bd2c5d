"""GitOps without Git: the command pushes and signs, tags move, and the cluster follows them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import CONFIG_MAP, KUSTOMIZATION, Space, condition, config_map
from tests.e2e.ocirepositories import OCI_REPOSITORY
from tests.e2e.sources import secret
from tests.fakes import distribution
from tests.fakes.sigstore import Sigstore
from tests.fakes.sigstoreserver import ISSUER, SUBJECT, SigstoreServer, identity_token
from tests.tools import command
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAIN = "--insecure-registry"


@dataclass(frozen=True)
class Registry:
    """A repository in the reference registry, and who signs what is pushed there."""

    url: str
    signing: tuple[str, ...]
    directory: Path

    async def push(self, tag: str, files: Mapping[str, str], *, signed: bool = True) -> str:
        """Push files; return the digest."""
        tree = self.directory / tag
        tree.mkdir()
        for name, content in files.items():
            (tree / name).write_text(content)
        ended = await command.alone(
            *("push", "artifact", f"{self.url}:{tag}", "--path", str(tree), PLAIN, "-o", "json"),
            *("--source", "https://git.example.com/app", "--revision", f"{tag}@sha1:abc"),
            *(self.signing if signed else ()),
        )
        assert ended.code == 0, ended.err
        return str(json.loads(ended.out)["digest"])

    async def tag(self, reference: str, tag: str) -> None:
        """Move a tag."""
        moved = ("tag", "artifact", f"{self.url}:{reference}", "--tag", tag, PLAIN)
        assert (await command.alone(*moved)).code == 0


def objects(space: Space, url: str, root: bytes) -> tuple[Json, ...]:
    identity = {"issuer": f"^{ISSUER}$", "subject": "^https://github.com/acme/app/"}
    source = {
        "apiVersion": OCI_REPOSITORY.api_version,
        "kind": "OCIRepository",
        "metadata": {"name": "app", "namespace": space.namespace},
        "spec": {
            "interval": "10m",
            "url": url,
            "insecure": True,
            "ref": {"tag": "stable"},
            "verify": {
                "provider": "cosign",
                "matchOIDCIdentity": [identity],
                "trustedRootSecretRef": {"name": "sigstore"},
            },
        },
    }
    return (
        secret(space, "sigstore", {"trusted_root.json": root}),
        source,
        space.kustomization(sourceRef={"kind": "OCIRepository", "name": "app"}),
    )


async def followed(space: Space, digest: str, water: str) -> None:
    """Wait until the cluster has what a digest holds, and require that its signer is named."""
    await space.request(OCI_REPOSITORY)
    source = await space.ready(OCI_REPOSITORY, revision=digest)
    verified = condition(source, "SourceVerified")
    assert verified["status"] == "True"
    assert digest in verified["message"]
    assert SUBJECT in verified["message"]
    await space.ready(KUSTOMIZATION, revision=digest)
    assert (await space.get(CONFIG_MAP, "app"))["data"] == {"water": water}


async def test_promotion_and_rollback_by_tag_are_verified_at_each_step(
    space: Space, registry_program: Path, tmp_path: Path
) -> None:
    sigstore = Sigstore()
    root = tmp_path / "trusted_root.json"
    root.write_bytes(sigstore.trusted_root())
    async with (
        distribution.serve(registry_program, tmp_path / "registry") as host,
        SigstoreServer(sigstore) as services,
    ):
        registry = Registry(
            url=f"oci://{host}/team/app",
            signing=(
                *("--sign", "--identity-token", identity_token(), "--trusted-root", str(root)),
                *("--fulcio-url", services.url, "--rekor-url", services.url),
            ),
            directory=tmp_path,
        )
        first = await registry.push("v1", {"app.yaml": config_map("app", water="flows")})
        await registry.tag("v1", "stable")
        await space.world.apply(*objects(space, registry.url, sigstore.trusted_root()))
        await space.ready(OCI_REPOSITORY)
        await followed(space, first, "flows")

        # Promoted.
        second = await registry.push("v2", {"app.yaml": config_map("app", water="rises")})
        await registry.tag("v2", "stable")
        await followed(space, second, "rises")

        # What nobody signed is not taken, whatever the tag says.
        unsigned = {"app.yaml": config_map("app", water="stolen")}
        await registry.push("v3", unsigned, signed=False)
        await registry.tag("v3", "stable")
        await space.request(OCI_REPOSITORY)
        refused = condition(await space.get(OCI_REPOSITORY, "app"), "Ready")
        assert (refused["status"], refused["reason"]) == ("False", "VerificationError")
        assert "is not signed" in refused["message"]
        assert (await space.get(CONFIG_MAP, "app"))["data"] == {"water": "rises"}

        # Rolled back.
        await registry.tag("v1", "stable")
        await followed(space, first, "flows")
