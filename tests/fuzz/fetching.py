"""Readers of what registries, buckets, clouds, Git servers and artifact stores answer."""

import asyncio
import gzip
import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from controllers.image.taglists import TagList
from controllers.notification.sending import keyfiles
from controllers.notification.services import SERVICES
from controllers.notification.services.service import Answer, Target
from crds.image import AlphabeticalPolicy, ImagePolicyChoice, SemVerPolicy
from tests.fakes import notices
from tests.fuzz import binaries, hostile, languages
from tests.fuzz.reader import Row, each, text, texts
from toolkit import untrusted
from toolkit.artifact import about, archive, ledger, tarball
from toolkit.decrypt.kms import asking
from toolkit.errors import PenstockError
from toolkit.kube import tokens as accounts
from toolkit.policy import imagereference, tags
from toolkit.remote.cloud import awskeys, azure, gcp, web
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.git.objects import parse_commit, parse_tag
from toolkit.remote.objectstore import azure as blobs
from toolkit.remote.objectstore import dialect, gcs, s3, xml
from toolkit.remote.objectstore.errors import ObjectStoreError
from toolkit.remote.oci import dockerconfig, exchange, oci, registry, tokens


def _login(data: bytes) -> object:
    repository = imagereference.parse("example.com/team/app:1").repository
    return [
        dockerconfig.login([{key: data}], repository) for key in (".dockerconfigjson", ".dockercfg")
    ]


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


def _registry(data: bytes) -> object:
    """Read what a registry answers: lists, manifests, challenges, and where the next page is."""
    link: Any = SimpleNamespace(links={"next": {"url": text(data)}})
    for parse in (
        lambda: registry._decode(data, registry._Tags),
        lambda: registry._next("https://example.com/v2/a/tags/list", link),
        lambda: registry._known(text(data)[:1024], ["a"]),
        lambda: registry._reference(text(data)),
        lambda: tokens._choose((text(data),), "https://example.com", _REPOSITORY, "pull", _LOGIN),
        lambda: untrusted.load_json(data, tokens._Answer, size=64 << 10),
    ):
        try:
            parse()
        except (PenstockError, untrusted.UntrustedError):
            continue
    return None


_REPOSITORY: Final = oci.Repository.parse("oci://example.com/team/app")
_LOGIN: Final = exchange.Endpoint(username="a", password="b")


def _stored(data: bytes) -> object:
    """Read what stands in a bucket beside an artifact, and a list of tags in the store."""
    found = about.read(data, "sha256:a")
    try:
        return found, untrusted.load_json(data, ledger._Record, size=64 << 10)
    except untrusted.UntrustedError:
        return found


def _cloud(data: bytes) -> object:
    question = asking.Question(key="a", who="b", remedy="c")
    for parse in (
        lambda: web.text_field(web.decoded(data, purpose="p"), "a", purpose="p"),
        lambda: asking.decoded(data, question),
        lambda: awskeys._element(text(data), "AccessKeyId", "p"),
        lambda: awskeys._from_json(web.decoded(data, purpose="p"), purpose="p"),
        lambda: azure._end(f"a.{text(data)}.c"),
        lambda: azure._endpoint(text(data), "p"),
        lambda: azure._endpoint(hostile.base64.b64encode(data).decode(), "p"),
        lambda: gcp._addresses(web.decoded(data, purpose="p")),
        lambda: gcp._dns(web.decoded(data, purpose="p")),
        lambda: accounts._uid(f"a.{text(data)}.c"),
        lambda: accounts._status(web.decoded(data, purpose="p"), "a"),
        lambda: untrusted.load_json(data, keyfiles._Token, size=64 << 10),
    ):
        try:
            parse()
        except (PenstockError, untrusted.UntrustedError):
            continue
    return None


class _Service:
    """A service that answers every request with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(
        self,
        method: str,  # noqa: ARG002 - of the interface
        url: str,  # noqa: ARG002 - of the interface
        *,
        body: bytes | None = None,  # noqa: ARG002 - of the interface
        headers: Mapping[str, str] = {},  # noqa: ARG002 - of the interface
    ) -> Answer:
        return Answer(status=200, body=self._body)


_HTTP: Final = tuple(kind for kind in SERVICES if kind != "nats")
_NOTICE: Final = notices.event("error", change_request="1")


def _service(data: bytes) -> object:
    """Send an event to each type of service, which answers with these bytes."""
    target = {"namespace": "a", "name": "b", "token": "c", "channel": "d", "password": "e"}
    for kind in _HTTP:
        # The fields of ``target`` are texts, which mypy does not know.
        place = Target(type=kind, address="https://example.com/team/app", **target)  # type: ignore[arg-type]
        try:
            # A service only calls what it asks with, so it needs no more of ``Asking``.
            asyncio.run(SERVICES[kind](_NOTICE, place, _Service(data)))  # type: ignore[arg-type]
        except PenstockError:
            continue
    return None


_BUCKET: Final[Any] = SimpleNamespace(
    base="https://example.com", bucket="b", region="r", account="a"
)


def _listing(data: bytes) -> object:
    for parse in (
        lambda: s3.S3(_BUCKET).page(data),
        lambda: gcs.Gcs(_BUCKET).page(data),
        lambda: blobs.Azure(_BUCKET).page(data),
        lambda: dialect.from_headers("a", {"Content-Length": text(data), "ETag": text(data)}),
    ):
        try:
            parse()
        except (ObjectStoreError, xml.XmlError, ValueError):
            continue
    return None


def _bombs(size: int) -> tuple[bytes, ...]:
    """Return archives that unpack to a lot, say that they are large, or nest headers.

    Archives unpack to a few hundred times ``size``, which is nearly that of the others.
    """
    head = tarfile.TarInfo("a")
    head.size = 1 << 40
    sparse = tarfile.TarInfo("a")
    sparse.type = tarfile.GNUTYPE_SPARSE
    long = tarfile.TarInfo("x")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    pax = tarfile.TarInfo("x")
    pax.type, pax.size = tarfile.XHDTYPE, 1 << 20
    many = b"".join(tarfile.TarInfo(f"{n}").tobuf() for n in range(size // 16))
    zeros = gzip.compress(bytes(64 * size), 9)
    return (
        *(head.tobuf(), sparse.tobuf(), long.tobuf() + b"a" * 4096, many),
        pax.tobuf() + b"9" * (1 << 20),
        pax.tobuf() + b"13 path=aaaa\n" * 80_000,
        pax.tobuf() + b"99999999999 path=a\n",
        *(zeros, gzip.compress(zeros), gzip.compress(b"") * (size // 50)),
        bytes(size),
    )


def _markup(size: int) -> tuple[bytes, ...]:
    return (
        b"<a>" * (size // 7) + b"</a>" * (size // 7),
        b"<L>" + b"<Contents><Key>a</Key></Contents>" * (size // 34) + b"</L>",
        b"<L " + b" ".join(b'a%d="b"' % n for n in range(size // 11)) + b"/>",
        b"<L>" + b"&#65;" * (size // 6) + b"</L>",
        b"<L><Contents><Key>k</Key><Size>" + b"9" * 5_000 + b"</Size></Contents></L>",
        b'<?xml version="1.0" encoding="UTF-16"?><L/>',
        b"<L>" + b"<!-- a -->" * (size // 11) + b"</L>",
        b"<L xmlns:a='b'" + b" a:a='b'" * 2 + b"/>",
        *hostile.json(size),
    )


ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="docker config",
        parse=_login,
        samples=texts('{"auths": {"example.com": {"auth": "YTpi"}, "*.io": {"username": "u"}}}'),
        refuses=(AuthError,),
        worst=hostile.json,
        places=("toolkit/remote/oci/dockerconfig.py glob json own",),
    ),
    Row(
        name="manifest",
        parse=oci.parse_manifest,
        samples=texts(
            '{"schemaVersion": 2, "layers": [{"mediaType": "a", "digest": "b", "size": 1}]}'
        ),
        refuses=(HttpError, PenstockError),
        worst=hostile.json,
        size=4 << 20,
        places=("toolkit/remote/oci/oci.py json own",),
    ),
    Row(
        name="tag list",
        parse=_tag_list,
        samples=texts(
            '{"tags": ["v1.2.3", "1.0.0-rc.1+b", "main-abc-17", "latest"], "known": "e"}'
        ),
        refuses=(PenstockError, untrusted.UntrustedError),
        worst=lambda size: (
            b'{"tags": [' + b",".join(b'"v1.%d.0"' % n for n in range(size // 16)) + b"]}",
            b'{"tags": ["' + b"9" * 5_000 + b'.0.0", "\\\\ud800"]}',
            *hostile.json(size),
        ),
        size=4 << 20,
        seconds=20.0,
        memory=512,
        places=("controllers/image/taglists.py json own", "toolkit/policy/tags.py pattern"),
    ),
    Row(
        name="answers of a registry",
        parse=_registry,
        shape=languages.TOKEN,
        samples=texts(
            '{"tags": ["a"], "token": "b", "expires_in": 300}',
            'Bearer realm="https://example.com/token",service="a",scope="repository:a:pull"',
        ),
        worst=lambda size: (*hostile.json(size), *hostile.urls(), *hostile.lists(64 << 10)),
        size=8 << 20,
        places=(
            "toolkit/remote/oci/publisher.py json url",
            "toolkit/remote/oci/registry.py json own url",
            "toolkit/remote/oci/tokens.py json own url",
        ),
    ),
    Row(
        name="S3, Google and Azure listing",
        parse=each(xml.parse, _listing, refuses=(xml.XmlError, PenstockError)),
        shape=languages.MARKUP,
        samples=texts(
            '<?xml version="1.0"?><L xmlns="u"><Key>a&amp;b</Key><Size>1</Size></L>',
            '{"items": [{"name": "a", "size": "1", "updated": "2026-01-01T00:00:00Z"}]}',
        ),
        worst=_markup,
        size=8 << 20,
        places=(
            "toolkit/remote/objectstore/azure.py address url",
            "toolkit/remote/objectstore/dialect.py own time",
            "toolkit/remote/objectstore/gcs.py json url",
            "toolkit/remote/objectstore/http.py url",
            "toolkit/remote/objectstore/s3.py url",
            "toolkit/remote/objectstore/xml.py own xml",
        ),
    ),
    Row(
        name="answers of clouds and key services",
        parse=_cloud,
        shape=languages.MARKUP,
        samples=texts(
            '{"access_token": "a", "expires_in": 1, "status": {"token": "t"}, "ipEndpoint": "b"}',
            "<AccessKeyId>a&amp;b</AccessKeyId>",
        ),
        worst=lambda size: (*hostile.yaml(size), *hostile.times()),
        places=(
            "toolkit/decrypt/kms/asking.py json own",
            "toolkit/decrypt/kms/aws.py pattern xml",
            "toolkit/decrypt/kms/azure.py own",
            "toolkit/kube/tokens.py json time",
            "toolkit/remote/cloud/awskeys.py pattern xml",
            "toolkit/remote/cloud/azure.py json yaml",
            "toolkit/remote/cloud/services.py own",
            "toolkit/remote/cloud/web.py json own",
        ),
    ),
    Row(
        name="answers of services",
        parse=_service,
        samples=texts(
            '[{"id": 1, "body": "a", "context": "b", "status": "c", "description": null}]',
            '{"ok": false, "error": "a"}',
        ),
        worst=hostile.json,
        size=4 << 20,
        seconds=4.0,
        places=(
            "controllers/notification/services/chat/lark.py json",
            "controllers/notification/services/chat/slack.py json",
            "controllers/notification/services/service.py json own",
            "controllers/notification/services/streams/nats.py json",
            "toolkit/remote/git/github.py json own time",
            "toolkit/remote/hosting/pulls.py json",
            "toolkit/remote/http/http.py json",
        ),
    ),
    Row(
        name="what stands beside a stored artifact",
        parse=_stored,
        samples=texts('{"digest": "sha256:a", "size": 1, "etag": "b"}', '{"digest": "sha256:a"}'),
        worst=hostile.json,
        places=("toolkit/artifact/about.py json", "toolkit/artifact/ledger.py json"),
    ),
    Row(
        name="tarball",
        parse=_tar,
        shape=binaries.tarballs,
        samples=_tarballs,
        worst=_bombs,
        seconds=4.0,
        places=("toolkit/artifact/archive.py own", "toolkit/artifact/tarball.py archive own"),
    ),
    Row(
        name="commit and tag",
        parse=_commit,
        shape=languages.COMMIT,
        samples=texts(_COMMIT),
        worst=hostile.lines,
        places=("toolkit/remote/git/objects.py own",),
    ),
)
