"""Who an OCIRepository signs in as, and whose signature it demands."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from crds.source_oci import OCIRepository
from tests.fakes.registry import FakeRegistry
from tests.loopback.oci.bench import LAYER, LOGIN, NAME, PROOF, Bench, make, obj
from toolkit.errors import PenstockError, StalledError
from toolkit.remote.cloud.identity import Login
from toolkit.remote.http.http import Http
from toolkit.remote.oci.registry import RegistryAuthError
from toolkit.verify.signature import VerificationError


def public_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


KEY, OTHER_KEY = public_key(), public_key()


def signed(server: FakeRegistry, **verify: Any) -> OCIRepository:
    return obj(server, verify={"provider": "cosign", "secretRef": {"name": "keys"}, **verify})


async def test_digest_is_verified_before_anything_is_pulled(
    server: FakeRegistry, bench: Bench
) -> None:
    bench.cluster.held["keys"] = {"cosign.pub": KEY}
    bench.verifier.answer = VerificationError("no signature found", step=1)
    digest = server.push(NAME, "latest", [LAYER])["digest"]

    with pytest.raises(VerificationError):
        await bench.fetch(signed(server))

    assert [str(subject) for subject, _ in bench.verifier.asked] == [
        f"{server.host}/{NAME}@{digest}"
    ]
    assert server.counts == {"HEAD manifests": 1}


async def test_proof_is_passed_on(server: FakeRegistry, bench: Bench) -> None:
    bench.cluster.held["keys"] = {"cosign.pub": KEY}
    server.push(NAME, "latest", [LAYER])

    fetched = await bench.fetch(signed(server))

    assert fetched.proof is PROOF


async def test_index_itself_must_be_signed(server: FakeRegistry, bench: Bench) -> None:
    bench.cluster.held["keys"] = {"cosign.pub": KEY}
    index = server.index(NAME, "latest", [server.push(NAME, "", [LAYER])])

    await bench.fetch(signed(server))

    assert [subject.digest for subject, _ in bench.verifier.asked] == [index["digest"]]


async def test_trust_changes_with_the_keys(server: FakeRegistry, bench: Bench) -> None:
    server.push(NAME, "latest", [LAYER])
    bench.cluster.held["keys"] = {"cosign.pub": KEY}
    before = await bench.resolve(signed(server))
    bench.cluster.held["keys"] = {"cosign.pub": KEY, "other.pub": OTHER_KEY}

    after = await bench.resolve(signed(server))

    assert before.trust
    assert before.trust != after.trust
    assert (await bench.resolve(obj(server))).trust == ""


@pytest.mark.parametrize(
    ("verify", "held", "said"),
    [
        ({"provider": "notation", "secretRef": None}, {}, "spec.verify.secretRef is needed"),
        ({"secretRef": None}, {}, "no signer is trusted"),
        ({}, {"keys": {"readme": b"x"}}, "no public key"),
        ({}, {}, "not found"),
        (
            {
                "secretRef": None,
                "matchOIDCIdentity": [{"issuer": "i", "subject": "s"}],
                "trustedRootSecretRef": {"name": "root"},
            },
            {"root": {"readme": b"x"}},
            "trusted_root.json",
        ),
    ],
)
async def test_trust_that_is_none_is_a_verification_error(
    server: FakeRegistry, bench: Bench, verify: Any, held: Any, said: str
) -> None:
    server.push(NAME, "latest", [LAYER])
    bench.cluster.held |= held

    with pytest.raises(PenstockError, match=said) as caught:
        await bench.fetch(signed(server, **verify))

    assert caught.value.reason == "VerificationError"
    assert server.counts["GET blobs"] == 0


async def test_pull_secrets_of_the_account_sign_in(http: Http, tmp_path: Path) -> None:
    async with FakeRegistry(basic=LOGIN) as server:
        bench = make(http, tmp_path)
        server.push(NAME, "latest", [LAYER])
        elsewhere = json.dumps({"auths": {"registry.example.com": {"auth": "eDp5"}}}).encode()
        bench.cluster.held["one"] = {".dockerconfigjson": elsewhere}
        bench.cluster.held["two"] = {".dockerconfigjson": server.dockerconfig(*LOGIN)}
        bench.cluster.accounts["puller"] = ("one", "two")

        await bench.fetch(obj(server, serviceAccountName="puller"))

    assert bench.files()


async def test_secret_for_another_registry_is_not_shown(http: Http, tmp_path: Path) -> None:
    async with FakeRegistry(basic=LOGIN) as server:
        bench = make(http, tmp_path)
        config = {"auths": {"registry.example.com": {"username": "ada", "password": "hunter2"}}}
        bench.cluster.held["pull"] = {".dockerconfigjson": json.dumps(config).encode()}
        with pytest.raises(RegistryAuthError):
            await bench.resolve(obj(server, secretRef={"name": "pull"}))

    assert [seen.authorization for seen in server.seen] == [""]


LOGIN_OF_CLOUD = Login(
    username="AWS", password="from-the-cloud", expires_at=datetime(2030, 1, 1, tzinfo=UTC)
)


async def test_login_of_a_cloud_is_not_sent_without_encryption(
    server: FakeRegistry, bench: Bench
) -> None:
    bench.cluster.login = LOGIN_OF_CLOUD

    with pytest.raises(StalledError, match="without encryption"):
        await bench.resolve(obj(server, provider="aws"))

    assert server.seen == []


async def test_login_of_a_cloud_that_is_refused_is_dropped(
    http: Http, tmp_path: Path, server_tls: Any, ca: bytes
) -> None:
    async with FakeRegistry(basic=LOGIN, tls=server_tls) as server:
        bench = make(http, tmp_path)
        bench.cluster.login = LOGIN_OF_CLOUD
        bench.cluster.held["certs"] = {"ca.crt": ca}
        app = obj(
            server,
            provider="aws",
            insecure=False,
            certSecretRef={"name": "certs"},
            serviceAccountName="puller",
        )
        with pytest.raises(RegistryAuthError) as caught:
            await bench.resolve(app)

    assert bench.cluster.dropped == [LOGIN_OF_CLOUD]
    provider, host, who = bench.cluster.asked[0]
    assert (provider, host, who and who.name) == ("aws", server.host, "puller")
    assert "from-the-cloud" not in str(caught.value)


async def test_insecure_registry_is_refused_where_the_operator_says_so(
    http: Http, tmp_path: Path, server: FakeRegistry
) -> None:
    bench = make(http, tmp_path, plain_http=False)

    with pytest.raises(StalledError, match="insecure-allow-http") as caught:
        await bench.resolve(obj(server))

    assert caught.value.reason == "InsecureConnectionsDisallowed"
    assert server.seen == []


@pytest.mark.parametrize(
    ("data", "said"),
    [({}, "no certificates"), ({"tls.crt": b"x"}, "only one"), ({"ca.crt": b"x"}, "no PEM")],
)
async def test_certificates_that_are_none_are_an_authentication_failure(
    server: FakeRegistry, bench: Bench, data: dict[str, bytes], said: str
) -> None:
    bench.cluster.held["certs"] = data

    with pytest.raises(PenstockError, match=said) as caught:
        await bench.resolve(obj(server, certSecretRef={"name": "certs"}))

    # A certificate is read when it is used, and then the registry cannot be asked.
    used = said == "no PEM"
    assert caught.value.reason == ("OCIArtifactPullFailed" if used else "AuthenticationFailed")
