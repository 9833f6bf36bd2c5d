"""What counts as an SSH signature, against ssh-keygen's and against forgeries."""

import base64
import hashlib
import struct
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from hypothesis import given
from hypothesis import strategies as st

from tests.testdata.signatures.generate import Author
from toolkit.remote.git.objects import Signed
from toolkit.remote.ssh import publickeys
from toolkit.verify import ssh
from toolkit.verify.signature import VerificationError
from toolkit.verify.ssh import Step

PAYLOAD = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nwhat was signed\n"
GOOD = ["ssh-ed25519", "ssh-ecdsa-256", "ssh-ecdsa-384", "ssh-ecdsa-521", "ssh-rsa"]


def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def covered(payload: bytes, digest: str = "sha512") -> bytes:
    parts = (b"git", b"", digest.encode(), hashlib.new(digest, payload).digest())
    return b"SSHSIG" + b"".join(map(string, parts))


def armored(public: bytes, signature: bytes, *, digest: str = "sha512", tail: bytes = b"") -> bytes:
    blob = b"SSHSIG" + struct.pack(">I", 1)
    blob += b"".join(map(string, (public, b"git", b"", digest.encode(), signature))) + tail
    body = base64.encodebytes(blob)
    return b"-----BEGIN SSH SIGNATURE-----\n" + body + b"-----END SSH SIGNATURE-----\n"


def line(public: bytes) -> bytes:
    kind = public[4 : 4 + int.from_bytes(public[:4])]
    return kind + b" " + base64.b64encode(public) + b" made up\n"


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_signature_of_a_trusted_key_names_its_owner(
    authors: dict[str, Author], name: str, digest: str
) -> None:
    author = authors[name]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD, digest=digest))

    signer = ssh.verify(signed, {"team.sshpub": b"# a comment\n\n" + author.public})

    assert signer.identity == f"{name}@example.org"
    blob = hashlib.sha256(base64.b64decode(author.public.split()[1])).digest()
    assert signer.fingerprint == "SHA256:" + base64.b64encode(blob).decode().rstrip("=")


@pytest.mark.parametrize("name", GOOD)
def test_changed_payload_is_refused(authors: dict[str, Author], name: str) -> None:
    author = authors[name]
    signed = Signed(payload=PAYLOAD + b"more", signature=author.sign(PAYLOAD))

    with pytest.raises(VerificationError, match="does not match") as caught:
        ssh.verify(signed, {"a.sshpub": author.public})

    assert caught.value.step == Step.SIGNATURE


def test_key_that_is_not_trusted_is_refused_by_fingerprint(authors: dict[str, Author]) -> None:
    signed = Signed(payload=PAYLOAD, signature=authors["ssh-stranger"].sign(PAYLOAD))

    with pytest.raises(
        VerificationError, match=r"step 4: the SSH key SHA256:\S+ .* is not trusted"
    ):
        ssh.verify(signed, {"a.sshpub": authors["ssh-ed25519"].public})


def test_signature_for_another_purpose_is_refused(authors: dict[str, Author]) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD, namespace="file"))

    with pytest.raises(VerificationError, match=r"step 2: .*another purpose than git"):
        ssh.verify(signed, {"a.sshpub": author.public})


def test_short_rsa_key_is_refused(authors: dict[str, Author]) -> None:
    author = authors["ssh-rsa-1024"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))

    with pytest.raises(VerificationError, match=r"step 5: .*fewer than 2048 bits"):
        ssh.verify(signed, {"a.sshpub": author.public})


def test_rsa_with_sha1_is_refused() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    numbers = key.public_key().public_numbers()
    modulus = b"\0" + numbers.n.to_bytes(256)
    public = b"".join(map(string, (b"ssh-rsa", numbers.e.to_bytes(3), modulus)))
    raw = key.sign(covered(PAYLOAD), padding.PKCS1v15(), hashes.SHA1())  # noqa: S303  # the point
    signature = armored(public, string(b"ssh-rsa") + string(raw))

    with pytest.raises(VerificationError, match=r"step 5: .*too weak"):
        ssh.verify(Signed(payload=PAYLOAD, signature=signature), {"a.sshpub": line(public)})


def test_weak_digest_is_refused() -> None:
    key, public = an_ed25519_key()
    raw = key.sign(covered(PAYLOAD, "sha1"))
    signature = armored(public, string(b"ssh-ed25519") + string(raw), digest="sha1")

    with pytest.raises(VerificationError, match=r"step 3: .*other than SHA-256 or SHA-512"):
        ssh.verify(Signed(payload=PAYLOAD, signature=signature), {"a.sshpub": line(public)})


def test_bytes_behind_the_signature_are_refused() -> None:
    key, public = an_ed25519_key()
    signature = string(b"ssh-ed25519") + string(key.sign(covered(PAYLOAD)))
    good = Signed(payload=PAYLOAD, signature=armored(public, signature))
    bad = [
        Signed(payload=PAYLOAD, signature=armored(public, signature, tail=b"\0")),
        Signed(payload=PAYLOAD, signature=armored(public, signature + b"\0")),
    ]

    ssh.verify(good, {"a.sshpub": line(public)})

    for signed in bad:
        with pytest.raises(VerificationError, match=r"step 1: .*damaged"):
            ssh.verify(signed, {"a.sshpub": line(public)})


def test_authority_in_the_key_file_does_not_sign_itself(authors: dict[str, Author]) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))

    with pytest.raises(VerificationError, match="is not trusted"):
        ssh.verify(signed, {"a.sshpub": b"cert-authority " + author.public})


NOW = datetime(2030, 6, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ('namespaces="git"', ""),
        ('expiry-time="20300615130000Z"', ""),
        ('Expiry-Time="20300615"', "has expired"),
        ('valid-before="203006151159"', "has expired"),
        ('valid-after="20300616"', "is not valid yet"),
        ('namespaces="file"', "does not list 'git' in its namespaces"),
        ("cert-authority", "is for a certificate authority"),
        ('CERT-AUTHORITY,principals="ada"', "is for a certificate authority"),
        ("no-pty,no-user-rc", "an option that signatures cannot honour"),
        ('command="echo \\"a b\\"",no-pty', "an option that signatures cannot honour"),
        ('expirytime="20990101"', "an option that signatures cannot honour"),
        ('namespaces="git', "has a quote that is not closed"),
        ("@cert-authority *", "has a marker"),
        ("@CERT-AUTHORITY *.example.org", "has a marker"),
        ("@Revoked", "revokes its key"),
        ("@revoked *", "revokes its key"),
    ],
)
def test_line_counts_only_as_far_as_its_options_say(
    authors: dict[str, Author], options: str, problem: str
) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    keys = {"a.sshpub": f"# signers\n{options} ".encode() + author.public}

    if not problem:
        assert ssh.verify(signed, keys, now=NOW).identity == "ssh-ed25519@example.org"
        return
    with pytest.raises(VerificationError, match=rf"'a\.sshpub' line 2 .*{problem}") as caught:
        ssh.verify(signed, keys, now=NOW)

    assert caught.value.step == Step.KEY


def test_principal_of_a_signer_is_who_signed(authors: dict[str, Author]) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))

    signer = ssh.verify(signed, {"a.sshpub": b'ada@example.org namespaces="git" ' + author.public})

    assert signer.identity == "ada@example.org"


def test_lines_that_do_not_count_are_skipped_and_named(authors: dict[str, Author]) -> None:
    author, stranger = authors["ssh-ed25519"], authors["ssh-stranger"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    files = {
        "a.sshpub": b"hello\n" + author.public + b"no-pty " + stranger.public,
        "b.sshpub": b"ssh-ed25519 not/base64!\n",
    }

    signer = ssh.verify(signed, files)

    assert signer.skipped == (
        "'a.sshpub' line 1 holds no SSH public key",
        (
            "'a.sshpub' line 3 has an option that signatures cannot honour: "
            "only namespaces, valid-after, valid-before, expiry-time count"
        ),
        "'b.sshpub' line 1 holds no SSH public key",
    )


def test_key_counts_if_one_of_its_lines_does(authors: dict[str, Author]) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    expired = b'expiry-time="20200101" ' + author.public

    ssh.verify(signed, {"a.sshpub": author.public + expired})
    ssh.verify(signed, {"a.sshpub": expired + author.public})


@pytest.mark.parametrize("marker", ["@revoked", "@REVOKED", "@revoked *"])
@pytest.mark.parametrize(("good", "revoking"), [("a.sshpub", "b.sshpub"), ("b.sshpub", "a.sshpub")])
def test_revoked_key_is_refused_wherever_else_it_stands(
    authors: dict[str, Author], marker: str, good: str, revoking: str
) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    files = {good: author.public, revoking: marker.encode() + b" " + author.public}

    with pytest.raises(VerificationError, match=f"is not trusted: '{revoking}' line 1 revokes"):
        ssh.verify(signed, files)


def test_revocation_that_cannot_be_read_refuses_every_key(authors: dict[str, Author]) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    files = {"a.sshpub": author.public + b"@revoked ssh-ed25519 AAAAC3Nz\n"}

    with pytest.raises(VerificationError, match=r"'a\.sshpub' line 2 .* revokes one"):
        ssh.verify(signed, files)


def test_more_lines_than_are_read_refuse_every_key(authors: dict[str, Author]) -> None:
    author = authors["ssh-ed25519"]
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    most = author.public + b"a\n" * (publickeys.MAX_LINES - 1)

    assert ssh.verify(signed, {"a.sshpub": most}).identity
    with pytest.raises(VerificationError, match=r"'a\.sshpub' has 16385 lines, and at most 16384"):
        ssh.verify(signed, {"a.sshpub": most + b"a\n"})


@pytest.mark.parametrize("content", [b"hello", b"ssh-ed25519", b"ssh-ed25519 not/base64!"])
def test_file_that_is_no_public_key_is_named(authors: dict[str, Author], content: bytes) -> None:
    signed = Signed(payload=PAYLOAD, signature=authors["ssh-ed25519"].sign(PAYLOAD))

    with pytest.raises(
        VerificationError,
        match=r"step 4: .* skipped keys: 'bad\.sshpub' line 1 holds no SSH public key",
    ):
        ssh.verify(signed, {"bad.sshpub": content})


@given(junk=st.text(max_size=80))
def test_junk_among_the_keys_is_skipped_or_refused(junk: str) -> None:
    key, public = an_ed25519_key()
    signature = armored(public, string(b"ssh-ed25519") + string(key.sign(covered(PAYLOAD))))
    signed = Signed(payload=PAYLOAD, signature=signature)

    with suppress(VerificationError):
        signer = ssh.verify(signed, {"a.sshpub": junk.encode() + b"\n" + line(public)})
        assert signer.identity == "made up"


@pytest.mark.parametrize("touched", [True, False])
def test_security_key_counts_only_if_it_was_touched(*, touched: bool) -> None:
    key, plain = an_ed25519_key()
    raw_public = plain[-32:]
    kind = b"sk-ssh-ed25519@openssh.com"
    public = b"".join(map(string, (kind, raw_public, b"ssh:")))
    presence = bytes([int(touched)]) + struct.pack(">I", 7)
    statement = (
        hashlib.sha256(b"ssh:").digest() + presence + hashlib.sha256(covered(PAYLOAD)).digest()
    )
    signature = armored(public, string(kind) + string(key.sign(statement)) + presence)
    signed = Signed(payload=PAYLOAD, signature=signature)

    if touched:
        assert ssh.verify(signed, {"a.sshpub": line(public)}).identity == "made up"
    else:
        with pytest.raises(VerificationError, match=r"step 7: .*touch"):
            ssh.verify(signed, {"a.sshpub": line(public)})


def test_ecdsa_security_key_counts() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    point = key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    kind = b"sk-ecdsa-sha2-nistp256@openssh.com"
    public = b"".join(map(string, (kind, b"nistp256", point, b"ssh:")))
    presence = b"\x01" + struct.pack(">I", 7)
    statement = (
        hashlib.sha256(b"ssh:").digest() + presence + hashlib.sha256(covered(PAYLOAD)).digest()
    )
    r, s = utils.decode_dss_signature(key.sign(statement, ec.ECDSA(hashes.SHA256())))
    pair = string(b"\0" + r.to_bytes(32)) + string(b"\0" + s.to_bytes(32))
    signature = armored(public, string(kind) + string(pair) + presence)

    signer = ssh.verify(Signed(payload=PAYLOAD, signature=signature), {"a.sshpub": line(public)})

    assert signer.identity == "made up"


@given(position=st.integers(min_value=0, max_value=130), flip=st.integers(1, 255))
def test_no_changed_byte_of_a_signature_goes_unnoticed(position: int, flip: int) -> None:
    key, public = an_ed25519_key(b"\x01" * 32)
    signature = armored(public, string(b"ssh-ed25519") + string(key.sign(covered(PAYLOAD))))
    blob = bytearray(base64.b64decode(b"".join(signature.splitlines()[1:-1])))
    blob[position % len(blob)] ^= flip
    body = base64.encodebytes(bytes(blob))
    changed = b"-----BEGIN SSH SIGNATURE-----\n" + body + b"-----END SSH SIGNATURE-----"

    with pytest.raises(VerificationError):
        ssh.verify(Signed(payload=PAYLOAD, signature=changed), {"a.sshpub": line(public)})


@given(junk=st.binary(max_size=400))
def test_junk_is_refused_as_a_signature(junk: bytes) -> None:
    body = base64.encodebytes(b"SSHSIG" + junk)
    signature = b"-----BEGIN SSH SIGNATURE-----\n" + body + b"-----END SSH SIGNATURE-----"

    with pytest.raises(VerificationError):
        ssh.verify(Signed(payload=PAYLOAD, signature=signature), {})


def an_ed25519_key(seed: bytes = b"\x02" * 32) -> tuple[ed25519.Ed25519PrivateKey, bytes]:
    key = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
    raw = key.public_key().public_bytes_raw()
    return key, string(b"ssh-ed25519") + string(raw)
