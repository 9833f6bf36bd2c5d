"""Signatures by the real cosign, against a registry and a Sigstore instance on loopback.

One file a case holds an artifact and its signatures; beside them lie the keys and the trusted root
that they are verified with. The private keys are gone.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.fakes.registry import FakeRegistry
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Sigstore
from tests.fakes.sigstoreserver import SigstoreServer, identity_token
from tests.tools import programs

# No Ed25519: cosign 3.1 makes Ed25519ph of it, and then refuses its own signature.
KEYS: Final = ("p256", "p384", "p521", "rsa")
TRUSTED_ROOT: Final = "trusted_root.json"
PREDICATE: Final = b'{"sbom": "of something"}'


@dataclass(frozen=True, kw_only=True)
class Case:
    """How an artifact is signed: with a key, or with an identity that Rekor keeps.

    ``rekor`` is the version of the log, or 0 for none.
    """

    key: str = ""
    legacy: bool = False
    rekor: int = 0
    timestamps: bool = False
    attest: bool = False


CASES: Final[Mapping[str, Case]] = MappingProxyType(
    {
        **{f"key-{key}": Case(key=key) for key in KEYS},
        **{f"key-{key}-legacy": Case(key=key, legacy=True) for key in KEYS},
        # Rekor v1: the log promises the time
        "keyless": Case(rekor=1),
        "keyless-legacy": Case(rekor=1, legacy=True),
        # with a timestamp beside
        "keyless-stamped": Case(rekor=1, timestamps=True),
        "keyless-stamped-legacy": Case(rekor=1, timestamps=True, legacy=True),
        # Rekor v2 promises no time
        "keyless-rekor2": Case(rekor=2, timestamps=True),
        # an attestation by the same key, or the same identity, is not a signature
        "key-attestation": Case(key="p256", attest=True),
        "keyless-attestation": Case(rekor=1, attest=True),
    }
)


def generate(directory: Path) -> None:
    """Write ``<case>.json``, ``<key>.pub`` and ``trusted_root.json`` into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(_generate(directory, programs.path("cosign")))


async def _generate(directory: Path, program: Path) -> None:
    async with FakeRegistry() as registry, ready(program, directory, Sigstore()) as cosign:
        try:
            for key in KEYS:
                await cosign.make_key(key)
            for name, case in CASES.items():
                pushed = registry.push(f"acme/{name}", "v1", [f"content of {name}".encode()])
                digest = str(pushed["digest"])
                await cosign.sign(f"{registry.host}/acme/{name}@{digest}", case)
                store = captured(registry, f"acme/{name}", digest)
                (directory / f"{name}.json").write_text(store.to_json() + "\n")
        finally:
            cosign.clean()


@asynccontextmanager
async def ready(program: Path, directory: Path, sigstore: Sigstore) -> AsyncIterator["Cosign"]:
    """Give cosign with a directory for its keys, and the services of a Sigstore instance."""
    (directory / TRUSTED_ROOT).write_bytes(sigstore.trusted_root())
    async with SigstoreServer(sigstore) as server:
        yield Cosign(program, directory, server)


def captured(registry: FakeRegistry, repository: str, digest: str) -> SignatureStore:
    """Return what a registry has of an artifact and its signatures."""
    store = SignatureStore(registry.manifests[repository, digest][1])
    for (name, _), (_, raw) in registry.manifests.items():
        if name == repository:
            store.put_manifest(raw)
            for layer in json.loads(raw).get("layers", []):
                store.blobs[layer["digest"]] = registry.blobs[layer["digest"]]
    store.tags = {tag: own for tag, own in registry.tags[repository].items() if tag != "v1"}
    return store


class Cosign:
    """The real program; its keys and settings lie beside what it makes until they are cleaned."""

    def __init__(self, program: Path, directory: Path, server: SigstoreServer) -> None:
        self._program = program
        self._directory = directory
        self._server = server
        self._made: list[Path] = []

    async def make_key(self, name: str) -> None:
        """Make a key pair of a kind; only the public key stays."""
        private = self._keep(f"{name}.pem")
        private.write_bytes(
            _KINDS[name]().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        prefix = self._directory / name
        await self.run("import-key-pair", "--key", private, "--output-key-prefix", prefix)
        self._keep(f"{name}.key")

    async def sign(self, reference: str, case: Case) -> None:
        """Sign or attest what a reference with a digest names."""
        arguments: list[str | Path] = ["attest" if case.attest else "sign", "--yes"]
        if case.attest:
            predicate = self._keep("predicate.json")
            predicate.write_bytes(PREDICATE)
            arguments += ["--type", "https://spdx.dev/Document", "--predicate", predicate]
        if case.key:
            arguments += ["--key", self._directory / f"{case.key}.key"]
        else:
            arguments += ["--identity-token", identity_token()]
        arguments += self._services(case)
        arguments += ["--trusted-root", self._directory / TRUSTED_ROOT]
        await self.run(*arguments, reference)

    def _services(self, case: Case) -> list[str | Path]:
        if not case.legacy:
            config = self._keep("signing_config.json")
            settings = self._server.signing_config(rekor=case.rekor, timestamps=case.timestamps)
            config.write_text(json.dumps(settings))
            return ["--signing-config", config]
        url = self._server.url
        return [
            "--new-bundle-format=false",
            "--use-signing-config=false",
            f"--tlog-upload={str(bool(case.rekor)).lower()}",
            f"--fulcio-url={url}",
            f"--rekor-url={url}",
            *([f"--timestamp-server-url={url}/api/v1/timestamp"] if case.timestamps else []),
        ]

    def clean(self) -> None:
        """Remove private keys and settings."""
        for path in self._made:
            path.unlink(missing_ok=True)

    def _keep(self, name: str) -> Path:
        path = self._directory / name
        self._made.append(path)
        return path

    async def run(self, *arguments: str | Path) -> None:
        """Run it; raises RuntimeError with its output if it fails."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env={"PATH": os.defpath, "HOME": str(self._directory), "COSIGN_PASSWORD": ""},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode:
            command = " ".join(map(str, arguments))
            raise RuntimeError(f"cosign {command} failed:\n{output.decode()}")


_KINDS: Final = {
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
}
