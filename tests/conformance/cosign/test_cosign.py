"""We and others who verify agree about what the real cosign signs, and about forgeries."""

import json
from pathlib import Path
from typing import Any

import pytest
from sigstore.errors import Error as SigstoreError
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity

from tests.fakes import cosignsigner, signaturestore
from tests.fakes.cosignsigner import BUNDLE, ISSUER, SUBJECT
from tests.fakes.registry import FakeRegistry
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Sigstore, canonical
from tests.tools.cosigncases import CASES, TRUSTED_ROOT, Case, Cosign
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.cosign.steps import Step
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject

COMMITTED = Path(__file__).parents[2] / "testdata" / "cosign"
ANYONE = [("^" + ISSUER + "$", "^https://github.com/acme/app/.*$")]
BUNDLES = [name for name, case in CASES.items() if not case.key and not case.legacy]


def policy(directory: Path, case: Case) -> cosign.Policy:
    if case.key:
        name = f"{case.key}.pub"
        return cosign.Policy.from_secret({name: (directory / name).read_bytes()})
    return cosign.Policy.keyless(ANYONE, {TRUSTED_ROOT: (directory / TRUSTED_ROOT).read_bytes()})


async def verify(subject: Subject, demanded: cosign.Policy) -> Proof:
    return await cosign.verify(subject, demanded, public_root=PublicRoot(offline=True))


def shape(value: Any) -> Any:
    """Return names and types, with what encoded JSON holds."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(shape(item)) for item in value})
    if isinstance(value, str) and value.startswith("{"):
        return shape(json.loads(value))
    return type(value).__name__


def bundle_of(path: Path) -> bytes:
    store = signaturestore.from_json(path)
    return next(blob for blob in store.blobs.values() if b"verificationMaterial" in blob)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.attest])
async def test_fresh_signatures_count(fresh: Path, name: str) -> None:
    store = signaturestore.from_json(fresh / f"{name}.json")

    proof = await verify(store.subject, policy(fresh, CASES[name]))

    assert str(store.subject) in proof.message


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.attest])
async def test_fresh_attestations_do_not(fresh: Path, name: str) -> None:
    store = signaturestore.from_json(fresh / f"{name}.json")

    with pytest.raises(VerificationError) as caught:
        await verify(store.subject, policy(fresh, CASES[name]))

    assert caught.value.step == Step.SIGNATURE


def test_committed_signatures_are_what_cosign_makes(fresh: Path) -> None:
    names = {path.name for path in fresh.iterdir()}

    assert {path.name for path in COMMITTED.iterdir()} == names
    for name in sorted(name for name in names if name.endswith(".json")):
        ours, new = ((root / name).read_text() for root in (COMMITTED, fresh))
        assert shape(json.loads(ours)) == shape(json.loads(new)), name


@pytest.mark.parametrize("name", BUNDLES)
def test_sigstore_python_accepts_what_we_accept(fresh: Path, name: str) -> None:
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(fresh / TRUSTED_ROOT)))

    kind, _ = verifier.verify_dsse(
        Bundle.from_json(bundle_of(fresh / f"{name}.json")),
        Identity(identity=SUBJECT, issuer=ISSUER),
    )

    assert kind == "application/vnd.in-toto+json"


FORGERIES: dict[str, Any] = {
    "other authority": lambda mine, digest: cosignsigner.keyless(
        mine, digest, authority=Sigstore().authority
    ),
    "other log": lambda mine, digest: cosignsigner.keyless(mine, digest, log=Sigstore().rekor),
    "no certificate log": lambda mine, digest: cosignsigner.keyless(mine, digest, sct=False),
    "other timestamps": lambda mine, digest: cosignsigner.keyless(
        mine, digest, log=mine.rekor2, stamped_by=Sigstore()
    ),
    "other identity": lambda mine, digest: cosignsigner.keyless(
        mine, digest, subject="eve@example.com"
    ),
    "no time": lambda mine, digest: cosignsigner.keyless(mine, digest, log=mine.rekor2),
    "nothing wrong": cosignsigner.keyless,
    "nothing wrong, version 2": lambda mine, digest: cosignsigner.keyless(
        mine, digest, log=mine.rekor2, stamped_by=mine
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_sigstore_python_and_we_judge_alike(
    sigstore: Sigstore, tmp_path: Path, forgery: str
) -> None:
    store = SignatureStore(b'{"schemaVersion": 2, "layers": []}')
    bundle = canonical(FORGERIES[forgery](sigstore, store.digest))
    store.attach(bundle, BUNDLE)
    (tmp_path / TRUSTED_ROOT).write_bytes(sigstore.trusted_root())
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(tmp_path / TRUSTED_ROOT)))

    try:
        verifier.verify_dsse(Bundle.from_json(bundle), Identity(identity=SUBJECT, issuer=ISSUER))
        theirs = True
    except SigstoreError:
        theirs = False
    try:
        await verify(store.subject, policy(tmp_path, Case(rekor=1)))
        ours = True
    except VerificationError:
        ours = False

    assert ours == theirs == forgery.startswith("nothing wrong")


@pytest.mark.parametrize("referrers", [True, False], ids=["referrers API", "fallback tag"])
@pytest.mark.parametrize("case", [Case(rekor=1), Case(rekor=1, legacy=True)], ids=["new", "old"])
async def test_signatures_are_found_in_a_registry(
    cosign_cli: Cosign, sigstore: Sigstore, http: Http, case: Case, *, referrers: bool
) -> None:
    async with FakeRegistry(referrers=referrers) as registry:
        pushed = registry.push("acme/app", "v1", [b"content"])
        await cosign_cli.sign(f"{registry.host}/acme/app@{pushed['digest']}", case)
        store = Registry(http, Endpoint(plain_http=True))
        repository = Repository.parse(registry.url("acme/app"))
        subject = Subject(
            store=store, repository=repository, descriptor=await store.resolve(repository, "v1")
        )
        root = {TRUSTED_ROOT: sigstore.trusted_root()}

        proof = await verify(subject, cosign.Policy.keyless(ANYONE, root))

        assert proof.message == (
            f"verified signature of {registry.host}/acme/app@{pushed['digest']} by {SUBJECT} "
            f"(issuer {ISSUER}), log index {proof.facts['verify.penstock.dev/log-index']}, "
            f"at {proof.facts['verify.penstock.dev/signed-at']}"
        )


async def test_cosign_accepts_what_our_forgeries_start_from(
    cosign_cli: Cosign, sigstore: Sigstore, tmp_path: Path
) -> None:
    async with FakeRegistry() as registry:
        pushed = registry.push("acme/app", "v1", [b"content"])
        bundle = canonical(cosignsigner.keyless(sigstore, str(pushed["digest"])))
        registry.push(
            "acme/app",
            "",
            [registry.put_blob(bundle, BUNDLE)],
            config_type="application/vnd.oci.empty.v1+json",
            artifact_type=BUNDLE,
            subject=pushed,
        )
        arguments: list[str | Path] = ["verify", "--trusted-root", tmp_path / TRUSTED_ROOT]
        arguments += ["--certificate-oidc-issuer", ISSUER, "--certificate-identity"]
        reference = f"{registry.host}/acme/app@{pushed['digest']}"

        await cosign_cli.run(*arguments, SUBJECT, reference)
        with pytest.raises(RuntimeError, match="no matching CertificateIdentity found"):
            await cosign_cli.run(*arguments, "eve@example.com", reference)
