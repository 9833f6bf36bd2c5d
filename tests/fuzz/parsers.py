"""Every parser of untrusted input in a process that others depend on.

``ROWS`` is the table of docs/security.md ("Parsers of untrusted input"): a test compares the
names. A row takes bytes and may raise the errors that its callers expect. Everything else is a
fault.
"""

import asyncio
import base64
import functools
import gzip
import io
import re
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pyrage
import pysequoia
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from controllers.image.taglists import TagList
from controllers.notification.events import event, matching
from controllers.notification.events.event import EventError
from controllers.notification.receiving import oidc, senders
from controllers.notification.receiving.request import Hook, RefusedError
from crds.image import AlphabeticalPolicy, ImagePolicyChoice, SemVerPolicy, TagFilter
from crds.notification_receiver import Receiver
from tests.fakes.evaluating import NoEvaluator
from toolkit import regexp, untrusted
from toolkit.apply.selector import Selector
from toolkit.artifact import archive, tarball
from toolkit.artifact.ignore import Ignore
from toolkit.chart import document
from toolkit.decrypt import age, sops
from toolkit.decrypt.formats import jsonfile, yamlfile
from toolkit.decrypt.kms import assertions, logins
from toolkit.errors import PenstockError
from toolkit.expressions import evaluator
from toolkit.expressions.evaluator import Case, Evaluator, Step
from toolkit.expressions.expression import Expression
from toolkit.kube import config
from toolkit.policy import imagereference, tags
from toolkit.release import digest, record, setting
from toolkit.remote import semver, tls
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.git.objects import Signed, parse_commit, parse_tag
from toolkit.remote.git.refspec import Refspec
from toolkit.remote.git.url import GitUrl
from toolkit.remote.http.http import Http
from toolkit.remote.objectstore import credentials, xml
from toolkit.remote.oci import dockerconfig, oci
from toolkit.verify import certificates, openpgp, publickey, ssh
from toolkit.verify.cosign import evidence, timestampauthority, trustedroot
from toolkit.verify.notation import document as trustpolicy
from toolkit.verify.notation import stores
from webhooks import conversion, review
from webhooks.validation import patches

TESTDATA: Final = Path(__file__).parents[1] / "testdata"
COSIGN: Final = TESTDATA / "cosign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One parser; ``refuses`` are the errors that its callers turn into a message."""

    name: str
    parse: Callable[[bytes], object]
    samples: Callable[[], tuple[bytes, ...]]
    refuses: tuple[type[Exception], ...] = (PenstockError,)


def _texts(*texts: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: tuple(text.encode() for text in texts)


def _files(*paths: Path) -> Callable[[], tuple[bytes, ...]]:
    return lambda: tuple(path.read_bytes() for path in paths)


def _text(data: bytes) -> str:
    """Return what the API server would let through in a string field."""
    return data.decode(errors="replace")


_KUBECONFIG: Final = """\
apiVersion: v1
current-context: here
contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
clusters:
- name: c
  cluster: {server: "https://example.com:6443", certificate-authority-data: Y2E=}
users:
- name: u
  user: {token: "t\\u00e9", client-key-data: |
      a2V5
    }
"""


def _patched(data: bytes) -> object:
    return patches.parsed(_text(data))


def _set(data: bytes) -> object:
    values: dict[str, Any] = {"a": [{"b": 1}], "c": {"d": None}}
    setting.put_literal(values, "c.e", _text(data))
    setting.put_quoted(values, "a[0].b", _text(data))
    setting.require_path(_text(data))
    return digest.of_values(values)


def _record(data: bytes) -> object:
    found = record.decode(data)
    return record.snapshot(found), record.tested(found, ())


def _sops(form: sops.Format) -> Callable[[bytes], object]:
    return lambda data: sops.metadata_of(data, form)


_BLOCK: Final = "ENC[AES256_GCM,data:Zm9v,iv:YmFy,tag:YmF6,type:str]"


def _login(data: bytes) -> object:
    repository = imagereference.parse("example.com/team/app:1").repository
    return [
        dockerconfig.login([{key: data}], repository) for key in (".dockerconfigjson", ".dockercfg")
    ]


def _expression(data: bytes) -> object:
    """Evaluate in a worker, as the product does; it is started anew when it dies of it."""
    expression = Expression(text=_text(data), result="")
    case = Case(
        given={"self": {"a": [1, "b"]}, "dep": {}, "object": {}},
        steps=[Step(expression=expression)],
    )
    loop, evaluates = _evaluator()
    return loop.run_until_complete(evaluates.evaluate("fuzz", [case]))


@functools.cache
def _evaluator() -> tuple[asyncio.AbstractEventLoop, Evaluator]:
    """Return an evaluator and its loop; the worker ends with this process."""
    return asyncio.new_event_loop(), evaluator.start()


def _pattern(data: bytes) -> object:
    return regexp.compiled(_text(data)).search("a" * 10_000)


def _tag_list(data: bytes) -> object:
    found = untrusted.load_json(data, TagList, size=1 << 20)
    left = tags.excluded([r"^.*\.sig$", "(x+x+)+y"], found.tags)
    return [
        tags.ranked(choice, None, left, most=50)
        for choice in (
            ImagePolicyChoice(semver=SemVerPolicy(range=">=0.0.0-0")),
            ImagePolicyChoice(alphabetical=AlphabeticalPolicy()),
        )
    ]


def _tag_filter(data: bytes) -> object:
    pattern, _, extract = _text(data).partition("\n")
    tags.missing_groups(pattern, extract) if _is_pattern(pattern) else ()
    given = TagFilter(pattern=pattern, extract=extract)
    listed = ["main-abc-17", "a" * 2000, *(f"v1.{number}.0" for number in range(50))]
    return tags.choose(ImagePolicyChoice(alphabetical=AlphabeticalPolicy()), given, listed)


def _is_pattern(text: str) -> bool:
    try:
        regexp.compiled(text)
    except ValueError:
        return False
    return True


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
    return [opener.open(_text(data)) for opener in openers if opener], age.load(data)


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


def _each(*parsers: Callable[[bytes], object], refuses: tuple[type[Exception], ...]) -> Any:
    def parse(data: bytes) -> object:
        for parser in parsers:
            try:
                parser(data)
            except refuses:
                continue
        return None

    return parse


_certificate = _each(
    lambda data: certificates.public_key(certificates.from_pem(data)),
    lambda data: certificates.public_key(certificates.from_der(_der(data))),
    lambda data: stores.read({"ca.crt": data}),
    publickey.from_pem,
    lambda data: publickey.from_der(_der(data)),
    refuses=(PenstockError, ValueError),
)
_key_pem = _each(
    lambda data: tls.client_context(data, data, data),
    lambda data: assertions.sign("RS256", {}, {}, pem=_text(data), entry="e"),
    lambda data: credentials._private_key(data, None),
    refuses=(PenstockError,),
)


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
                "dev.sigstore.cosign/bundle": _text(data),
                "dev.sigstore.cosign/certificate": _text(data),
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


def _tar(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        packed = Path(name, "a.tar.gz")
        packed.write_bytes(gzip.compress(data, 1))
        try:
            archive.check(packed)
        except PenstockError:
            packed.write_bytes(data)
    with io.BytesIO(data) as file:
        reader = tarball.Reader(file, limit=1 << 24, checkpoint=lambda: None)
        return sum(1 for _ in reader.members())


def _tarballs() -> tuple[bytes, ...]:
    made = []
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with io.BytesIO() as file:
            with tarfile.open(fileobj=file, mode="w", format=form) as tar:
                for name in ("a.yaml", "d/" + "e" * 120 + "/ü.yaml"):
                    info = tarfile.TarInfo(name)
                    info.size = 5
                    tar.addfile(info, io.BytesIO(b"a: b\n"))
            made += [file.getvalue(), gzip.compress(file.getvalue(), mtime=0)]
    return tuple(made)


def _review(data: bytes) -> object:
    return review.decode(data, deadline=0.0)


_REVIEW: Final = """\
{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
"kind": {"group": "", "version": "v1", "kind": "Secret"},
"resource": {"group": "", "version": "v1", "resource": "secrets"}, "name": "s", "namespace": "n",
"operation": "CREATE", "userInfo": {"username": "a", "groups": ["b"], "extra": {"c": ["d"]}},
"object": {"metadata": {"name": "s"}, "data": {"a": "Yg=="}}, "dryRun": false}}"""


def _commit(data: bytes) -> object:
    return parse_commit(data), parse_tag(data)


_COMMIT: Final = """\
tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904
author A <a@example.com> 1700000000 +0100
committer A <a@example.com> 1700000000 +0100
gpgsig -----BEGIN SSH SIGNATURE-----
 U1NIU0lH
 -----END SSH SIGNATURE-----

message
"""


def _names(data: bytes) -> object:
    text = _text(data)
    parsers: tuple[Callable[[str], object], ...] = (
        GitUrl.parse,
        imagereference.parse,
        semver.Version.parse,
        lambda text: semver.highest(["1.2.3", "v2.0.0-rc.1"], semver.Range.parse(text)),
        lambda text: Selector(label_selector=text, name=text).check(),
    )
    for parse in parsers:
        try:
            parse(text)
        except (PenstockError, ValueError):
            continue
    return None


def _ignored(data: bytes) -> object:
    return Ignore.from_rules(_text(data))


_POSTED: Final = """\
{"involvedObject": {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
"namespace": "n", "name": "a"}, "severity": "info", "timestamp": "2026-11-25T16:00:00Z",
"message": "cloning https://a:b@c failed", "reason": "r", "metadata": {"a/b": "token=c"},
"reportingController": "c"}"""


def _posted(data: bytes) -> object:
    return matching.hidden(event.parse(data))


def _hooked(data: bytes) -> object:
    """Check a body as each type does that looks into one; the signature is of these bytes."""
    receiver = msgspec.convert({"spec": {"type": "generic", "resources": []}}, Receiver)
    signature = senders.signed(b"token", data, "sha1")
    headers = {
        "X-Nexus-Webhook-Signature": signature,
        **{name: _text(data)[:64] for name in ("Ce-Id", "Ce-Source", "Ce-Type", "X-Signature")},
    }
    hook = Hook(receiver=receiver, headers=headers, body=data, secret={"token": b"token"})

    async def check(kind: str) -> object:
        return await senders.SENDERS[kind](hook, _TOKENS)

    for kind in ("generic-hmac", "nexus", "dockerhub", "quay", "acr", "cdevents"):
        try:
            asyncio.run(check(kind))
        except RefusedError:
            continue
    return None


_TOKENS: Final = oidc.Tokens(Http(), lambda _: Endpoint(), NoEvaluator())
_token = _each(
    oidc.keys,
    lambda data: oidc.unverified(_text(data)),
    lambda data: oidc.unverified(f"e30.{base64.urlsafe_b64encode(data).decode()}.e30"),
    refuses=(RefusedError,),
)

ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="kubeconfig",
        parse=lambda data: config.from_untrusted_kubeconfig(_text(data)),
        samples=_texts(_KUBECONFIG),
    ),
    Row(
        name="logins for key services",
        parse=lambda data: logins.from_secret(
            dict.fromkeys(("sops.aws-kms", "sops.azure-kv", "sops.gcp-kms"), data)
        ),
        samples=_texts(
            "aws_access_key_id: a\naws_secret_access_key: b\n",
            '{"tenantId": "t", "clientId": "c", "clientSecret": "s\\n"}',
        ),
    ),
    Row(name="patch", parse=_patched, samples=_texts("- {op: add, path: /a, value: &a [1]}\n- *a")),
    Row(
        name="values",
        parse=document.load_mapping,
        samples=_texts("a: &a {b: [1, 0x2, 3e4, yes]}\nc: {<<: *a}\nd: !!binary YQ==\n"),
        refuses=(PenstockError, ValueError),
    ),
    Row(
        name="SOPS in YAML",
        parse=_each(yamlfile.load, _sops(sops.Format.YAML), refuses=(PenstockError,)),
        samples=_texts(f"a: {_BLOCK}\nsops:\n  mac: {_BLOCK}\n  age: [{{recipient: a, enc: b}}]\n"),
    ),
    Row(
        name="SOPS in JSON",
        parse=_each(jsonfile.load, _sops(sops.Format.JSON), refuses=(PenstockError,)),
        samples=_texts(f'{{"a": "{_BLOCK}", "b": [1, 2.5e3], "sops": {{"mac": "{_BLOCK}"}}}}'),
    ),
    Row(
        name="SOPS in dotenv and INI",
        parse=_each(_sops(sops.Format.DOTENV), _sops(sops.Format.INI), refuses=(PenstockError,)),
        samples=_texts(
            f"a={_BLOCK}\nsops_mac={_BLOCK}\nsops_age__list_0__map_enc=b\n",
            f"[s]\na = {_BLOCK}\n[sops]\nmac = {_BLOCK}\nage__list_0__map_enc = b\n",
        ),
    ),
    Row(
        name="reviews",
        parse=_each(
            _review,
            conversion._decoded,
            refuses=(review.MalformedError, conversion.MalformedReviewError),
        ),
        samples=_texts(_REVIEW),
    ),
    Row(
        name="docker config",
        parse=_login,
        samples=_texts('{"auths": {"example.com": {"auth": "YTpi"}, "*.io": {"username": "u"}}}'),
        refuses=(AuthError,),
    ),
    Row(
        name="manifest",
        parse=oci.parse_manifest,
        samples=_texts(
            '{"schemaVersion": 2, "layers": [{"mediaType": "a", "digest": "b", "size": 1}]}'
        ),
        refuses=(HttpError, PenstockError),
    ),
    Row(
        name="tag list",
        parse=_tag_list,
        samples=_texts(
            '{"tags": ["v1.2.3", "1.0.0-rc.1+b", "main-abc-17", "latest"], "known": "e"}'
        ),
        refuses=(PenstockError, untrusted.UntrustedError),
    ),
    Row(
        name="tag filter",
        parse=_tag_filter,
        samples=_texts("^main-(?P<sha>[a-f0-9]+)-(?P<ts>[0-9]+)$\n${ts}$$$1", "(a+)+$\n$1"),
    ),
    Row(
        name="refspec",
        parse=lambda data: Refspec.parse(_text(data)),
        samples=_texts("+refs/heads/main:refs/for/main", "refs/heads/a"),
        refuses=(ValueError,),
    ),
    Row(name="cosign signature", parse=_bundle, samples=_bundles),
    Row(
        name="Sigstore trusted root",
        parse=trustedroot.read,
        samples=_files(COSIGN / "trusted_root.json"),
    ),
    Row(name="RFC 3161 timestamp", parse=_timestamp, samples=_stamps),
    Row(
        name="Notary trust policy",
        parse=trustpolicy.read,
        samples=_texts(
            '{"version": "1.0", "trustPolicies": [{"name": "a", "registryScopes": ["*"],'
            '"signatureVerification": {"level": "strict"}, "trustStores": ["ca:a"],'
            '"trustedIdentities": ["x509.subject: C=DE, O=A, CN=B"]}]}'
        ),
    ),
    Row(name="certificate and public key", parse=_certificate, samples=_pems),
    Row(name="private key", parse=_key_pem, samples=_pems),
    Row(
        name="OpenPGP signature and key ring",
        parse=_pgp_verify,
        samples=_pgp,
    ),
    Row(name="SSH signature and keys", parse=_ssh_verify, samples=_ssh),
    Row(name="age identity and message", parse=_age_open, samples=_age),
    Row(
        name="CEL expression",
        parse=_expression,
        samples=_texts(
            "self.a.filter(x, x == 'b').size() > 0 && has(dep.b) ? true : [1, 2u].all(y, y < 3)",
            "self.a[1].matches(r'b+') || timestamp('2026-01-01T00:00:00Z') > duration('1s')",
        ),
    ),
    Row(
        name="regular expression",
        parse=_pattern,
        samples=_texts(r"^(?:refs/heads/[a-z]{1,9}|v?\d+\.(\w*?)+)$", r"(?i)[[:alpha:]]\pL{3,}"),
        refuses=(ValueError,),
    ),
    Row(
        name="S3 and Azure listing",
        parse=xml.parse,
        samples=_texts('<?xml version="1.0"?><L xmlns="u"><Key>a&amp;b</Key><Size>1</Size></L>'),
        refuses=(xml.XmlError,),
    ),
    Row(
        name="value at a path",
        parse=_set,
        samples=_texts("{a,1,null},b.c[2].d=0,e\\.f=true", "hosts[0].name", "'1'", "1e3"),
        refuses=(setting.SettingError,),
    ),
    Row(
        name="record of a release",
        parse=_record,
        samples=_texts(
            '{"name":"a","namespace":"b","version":1,"info":{"status":"deployed",'
            '"first_deployed":"2026-01-02T03:04:05.123456789+02:00","deleted":""},'
            '"chart":{"metadata":{"name":"c","version":"1.0.0"}},"config":{"k":[1.5,"yes"]},'
            '"hooks":[{"name":"t","events":["test"],"last_run":{"phase":"Failed"}}]}'
        ),
    ),
    Row(name="tarball", parse=_tar, samples=_tarballs),
    Row(name="commit and tag", parse=_commit, samples=_texts(_COMMIT)),
    Row(
        name="names, ranges and selectors",
        parse=_names,
        samples=_texts(
            "ssh://git@example.com:22/a/b.git",
            "example.com:5000/a/b:c@sha256:" + "0" * 64,
            ">=1.2.3-0 <2 || ~1.x, ^0.1",
            "app in (a, b),tier!=c,!d",
        ),
    ),
    Row(
        name="ignore rules",
        parse=_ignored,
        samples=_texts("# a\n*.md\n!/docs/**/[a-z]?.md\n\\#b \n"),
        refuses=(PenstockError, ValueError),
    ),
    Row(name="event", parse=_posted, samples=_texts(_POSTED), refuses=(EventError,)),
    Row(
        name="body of a webhook",
        parse=_hooked,
        samples=_texts(
            '{"push_data": {"tag": "1"}, "repository": {"repo_url": "u"}, "docker_url": "d"}',
            '{"id": "1", "action": "push", "target": {"repository": "a", "tag": "b"}}',
        ),
    ),
    Row(
        name="token and keys of an issuer",
        parse=_token,
        samples=_texts(
            '{"keys": [{"kty": "EC", "crv": "P-256", "kid": "a", "x": "AA", "y": "AA"},'
            ' {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "b", "alg": "RS256"}]}',
            '{"iss": "https://a.example", "exp": 4e9, "aud": ["b"]}',
            "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJhIn0.c2ln",
        ),
    ),
)
