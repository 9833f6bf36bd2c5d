"""Readers of keys, certificates and signatures."""

import base64
import functools
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pyrage
import pysequoia
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from apiserver.auth.authorities import Authorities
from tests.fuzz import binaries, hostile, languages
from tests.fuzz.reader import Row, each, files, text, texts
from toolkit.decrypt import age, seal
from toolkit.decrypt.kms import assertions
from toolkit.errors import PenstockError
from toolkit.remote import tls
from toolkit.remote.git import auth, signing, signingkeys
from toolkit.remote.git import ssh as gitssh
from toolkit.remote.git.objects import Signed
from toolkit.remote.objectstore import credentials
from toolkit.verify import certificates, openpgp, publickey, ssh
from toolkit.verify.cosign import evidence, timestampauthority, transparencylog, trustedroot
from toolkit.verify.notation import document as trustpolicy
from toolkit.verify.notation import stores

TESTDATA: Final = Path(__file__).parents[1] / "testdata"
COSIGN: Final = TESTDATA / "cosign"


@functools.cache
def _pgp() -> tuple[bytes, bytes]:
    """Return a public key, and a signature by it."""
    key = pysequoia.Tsk.generate(user_id="author <a@example.com>")
    public = key.extract_certificate()
    signature = pysequoia.sign(key.signer(), b"content", mode=pysequoia.SignatureMode.DETACHED)
    return str(public).encode(), signature


def _pgp_verify(data: bytes) -> object:
    public, signature = _pgp()
    for signed, ring in ((data, public), (signature, data)):
        openpgp.verify(Signed(payload=b"content", signature=signed), {"a.asc": ring})
    return None


@functools.cache
def _age() -> tuple[bytes, bytes, bytes]:
    identity = pyrage.x25519.Identity.generate()
    message = pyrage.encrypt(b"content", [identity.to_public()], armored=True)
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    return str(identity).encode(), private, message


def _age_open(data: bytes) -> object:
    identity, private, _ = _age()
    openers = [age.load(key).opener for key in (identity, private)]
    return [opener.open(text(data)) for opener in openers if opener], age.load(data)


_SSH_KEY: Final = (
    b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl a@b\n"
)


@functools.cache
def _ssh() -> tuple[bytes, bytes]:
    """Return public keys, and a signature (PROTOCOL.sshsig) that none of them made."""
    string = lambda part: len(part).to_bytes(4) + part  # noqa: E731 - a word of the format
    key = string(b"ssh-ed25519") + string(bytes(32))
    fields = (key, b"git", b"", b"sha512", string(b"ssh-ed25519") + string(bytes(64)))
    blob = b"SSHSIG" + (1).to_bytes(4) + b"".join(map(string, fields))
    body = base64.encodebytes(blob)
    return _SSH_KEY, b"-----BEGIN SSH SIGNATURE-----\n" + body + b"-----END SSH SIGNATURE-----\n"


def _ssh_verify(data: bytes) -> object:
    keys, signature = _ssh()
    for signed, ring in ((data, keys), (signature, data)):
        try:
            ssh.verify(Signed(payload=b"content", signature=signed), {"keys": ring})
        except PenstockError:
            continue
    return None


@functools.cache
def _pems() -> tuple[bytes, ...]:
    """Return certificates and keys of several algorithms, PEM."""
    made = []
    now = datetime(2026, 1, 1, tzinfo=UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    for key in (ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)):
        built = (
            x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=9))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        made.append(built.public_bytes(serialization.Encoding.PEM))
        made.append(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        made.append(key.public_key().public_bytes(serialization.Encoding.PEM, public))
    return tuple(made)


def _der(data: bytes) -> bytes:
    body = re.sub(rb"-----[^\n]*-----", b"", data)
    try:
        return base64.b64decode(body + b"==")
    except ValueError:
        return data


_certificate = each(
    lambda data: certificates.public_key(certificates.from_pem(data)),
    lambda data: certificates.public_key(certificates.from_der(_der(data))),
    lambda data: stores.read({"ca.crt": data}),
    publickey.from_pem,
    lambda data: publickey.from_der(_der(data)),
    refuses=(PenstockError, ValueError),
)
_key_pem = each(
    lambda data: tls.client_context(data, data, data),
    lambda data: assertions.sign("RS256", {}, {}, pem=text(data), entry="e"),
    lambda data: credentials._private_key(data, None),
    refuses=(PenstockError,),
)


def _git_key(data: bytes) -> object:
    """Read a key as a worker does that signs commits, or that logs in to a Git server."""
    for kind, entry in (("ssh", "identity"), ("gpg", "git.asc")):
        try:
            key = signingkeys.from_secret(kind, {entry: data})
            signing.fingerprint(key)
            signing.sign(key, b"content")
        except PenstockError:
            continue
    return None


def _git_login(data: bytes) -> object:
    for scheme, secret in (
        ("ssh", {"identity": data, "known_hosts": b"a " + _SSH_KEY}),
        ("ssh", {"identity": _age()[1], "known_hosts": data}),
        ("https", {"username": data, "password": data, "bearerToken": data, "ca.crt": data}),
    ):
        try:
            found = auth.GitAuth.from_secret(secret, scheme=scheme)
            if scheme == "ssh":
                gitssh._private_key(found)
                gitssh._known_hosts(found)
        except PenstockError:
            continue
    return None


def _git_keys() -> tuple[bytes, ...]:
    secret = str(pysequoia.Tsk.generate(user_id="a <a@example.com>")).encode()
    return (_age()[1], secret, b"host,*.example.com " + _SSH_KEY)


def _timestamp(data: bytes) -> object:
    root = trustedroot.read((COSIGN / "trusted_root.json").read_bytes())
    return timestampauthority.check(data, b"signature", root)


def _stamps() -> tuple[bytes, ...]:
    text = (COSIGN / "keyless-stamped.json").read_text()
    found = re.findall(r'"signedTimestamp": ?"([^"]+)"', text.replace("\\", ""))
    return tuple(map(base64.b64decode, found)) or (b"\x30\x82\x01\x00",)


def _bundle(data: bytes) -> object:
    digest = "sha256:" + "0" * 64
    for parse in (
        lambda: evidence.from_bundle(data, digest=digest, manifest=b"{}"),
        lambda: evidence.from_simple_signing(
            data,
            {
                "dev.cosignproject.cosign/signature": "YQ==",
                "dev.sigstore.cosign/bundle": text(data),
                "dev.sigstore.cosign/certificate": text(data),
            },
            digest=digest,
        ),
    ):
        try:
            parse()
        except PenstockError:
            continue
    return None


def _bundles() -> tuple[bytes, ...]:
    """Return the values of the test data that are JSON themselves, and the files."""
    found = [path.read_bytes() for path in sorted(COSIGN.glob("key*.json"))]
    inner = [
        value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for data in found
        for value in msgspec.json.decode(data, type=dict[str, Any]).values()
    ]
    return (*found, *(text.encode() for text in inner))


_trusted = Authorities(b"")


def _client(data: bytes) -> object:
    """Verify a certificate as the aggregated API does, and read a bundle as it does."""
    for run in (lambda: Authorities(data).verify(_der(data)), lambda: _trusted.verify(data)):
        try:
            run()
        except PenstockError:
            continue
    return None


def _entry(data: bytes) -> object:
    """Compare the body of a log entry, as far as it can be read."""
    entry: Any = SimpleNamespace(canonicalized_body=data, kind_version=None)
    # The text is read before anything of the signature is looked at.
    return transparencylog._check_body(entry, SimpleNamespace())  # type: ignore[arg-type]


_SEALED: Final = b"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {b: c}\n"


def _recipient(data: bytes) -> object:
    return seal.seal(_SEALED, [text(data)], now=datetime(2026, 1, 1, tzinfo=UTC))


ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="cosign signature",
        parse=_bundle,
        samples=_bundles,
        worst=hostile.json,
        places=(
            "toolkit/verify/cosign/evidence.py json own",
            "toolkit/verify/cosign/policy.py own",
        ),
    ),
    Row(
        name="body of a log entry",
        parse=_entry,
        samples=texts('{"kind": "dsse", "apiVersion": "0.0.1", "spec": {"payloadHash": {}}}'),
        worst=hostile.json,
        places=("toolkit/verify/cosign/transparencylog.py json",),
    ),
    Row(
        name="Sigstore trusted root",
        parse=trustedroot.read,
        samples=files(COSIGN / "trusted_root.json"),
        worst=hostile.json,
        places=("toolkit/verify/cosign/trustedroot.py json",),
    ),
    Row(
        name="RFC 3161 timestamp",
        parse=_timestamp,
        shape=lambda: binaries.DER,
        samples=_stamps,
        worst=hostile.der,
        places=("toolkit/verify/cosign/timestampauthority.py signature",),
    ),
    Row(
        name="Notary trust policy",
        parse=trustpolicy.read,
        samples=texts(
            '{"version": "1.0", "trustPolicies": [{"name": "a", "registryScopes": ["*"],'
            '"signatureVerification": {"level": "strict"}, "trustStores": ["ca:a"],'
            '"trustedIdentities": ["x509.subject: C=DE, O=A, CN=B"]}]}'
        ),
        worst=hostile.json,
        places=(
            "toolkit/verify/notation/document.py json",
            "toolkit/verify/notation/policy.py own",
        ),
    ),
    Row(
        name="certificate and public key",
        parse=_certificate,
        samples=_pems,
        worst=hostile.pem,
        places=(
            "toolkit/decrypt/kms/azure.py certificate",
            "toolkit/remote/objectstore/credentials.py certificate json",
            "toolkit/verify/certificates.py certificate own",
            "toolkit/verify/notation/stores.py certificate own",
            "toolkit/verify/publickey.py key own",
        ),
    ),
    Row(
        name="certificate of a client",
        parse=_client,
        shape=lambda: binaries.DER,
        samples=_pems,
        worst=hostile.pem,
        places=(
            "apiserver/auth/authorities.py certificate",
            "webhooks/callers.py certificate",
        ),
    ),
    Row(
        name="private key",
        parse=_key_pem,
        samples=_pems,
        worst=hostile.pem,
        seconds=4.0,
        places=("toolkit/remote/rsakeys.py key own", "toolkit/remote/tls.py own"),
    ),
    Row(
        name="OpenPGP signature and key ring",
        parse=_pgp_verify,
        samples=_pgp,
        worst=hostile.pem,
        runs="toolkit.verify.gitworker",
        seconds=8.0,
        places=("toolkit/verify/openpgp.py openpgp",),
    ),
    Row(
        name="SSH signature and keys",
        parse=_ssh_verify,
        shape=languages.KNOWN_HOSTS,
        samples=_ssh,
        worst=hostile.lines,
        runs="toolkit.verify.gitworker",
        places=(
            "toolkit/remote/ssh/publickeys.py own",
            "toolkit/verify/ssh.py key",
            "toolkit/verify/sshkeys.py time",
        ),
    ),
    Row(
        name="key that signs commits",
        parse=_git_key,
        samples=_git_keys,
        worst=hostile.pem,
        runs="toolkit.remote.git.worker",
        seconds=8.0,
        places=(
            "toolkit/remote/git/signing.py key openpgp signature",
            "toolkit/remote/git/signingkeys.py own",
        ),
    ),
    Row(
        name="login and known hosts of Git",
        parse=_git_login,
        shape=languages.KNOWN_HOSTS,
        samples=_git_keys,
        worst=hostile.lines,
        runs="toolkit.remote.git.worker",
        seconds=4.0,
        places=("toolkit/remote/git/auth.py own", "toolkit/remote/git/ssh.py key"),
    ),
    Row(
        name="age identity and message",
        parse=_age_open,
        samples=_age,
        worst=hostile.lines,
        size=5 << 20,
        seconds=8.0,
        memory=1536,
        places=(
            "toolkit/decrypt/age.py age own",
            "toolkit/decrypt/keyring.py own",
            "toolkit/decrypt/openpgp.py own",
        ),
    ),
    Row(
        name="age recipient",
        parse=_recipient,
        shape=languages.KNOWN_HOSTS,
        samples=lambda: (str(pyrage.x25519.Identity.generate().to_public()).encode(), _SSH_KEY),
        worst=hostile.lines,
        size=64 << 10,
        refuses=(PenstockError, ValueError),
        places=("toolkit/decrypt/seal.py age",),
    ),
)
