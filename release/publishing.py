"""Push images, charts and signatures to a registry: https://github.com/opencontainers/distribution-spec.

Whole blobs in one request each, and none that the registry has. A tag that is there already with
another content is an error: what was released does not change. Signatures are the exception,
because those of elliptic curves differ each time.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode, urljoin

import urllib3

from release import signing
from release.errors import ReleaseError, UnavailableError
from release.signing import Signer
from toolkit import untrusted
from toolkit.remote.oci import tokens

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
USERNAME: Final = "REGISTRY_USERNAME"
PASSWORD: Final = "REGISTRY_PASSWORD"  # noqa: S105  # the name of the variable
_SECONDS: Final = 300.0
_REDIRECTS: Final = 3
_MAX_TOKEN: Final = 256 << 10
_CONFLICT: Final = "this version is published with another content: choose a new version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """What a manifest points to."""

    media_type: str
    content: bytes
    annotations: Mapping[str, str] | None = None

    @property
    def digest(self) -> str:
        """The name by which a registry keeps it."""
        return digest(self.content)

    def descriptor(self) -> Mapping[str, Any]:
        """Return how a manifest points to it."""
        told = {"annotations": dict(self.annotations)} if self.annotations else {}
        return {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": len(self.content),
            **told,
        }


class Repository:
    """One repository of a registry, ``registry.example.com/team/penstock``.

    The credentials are in the variables ``USERNAME`` and ``PASSWORD``.
    """

    def __init__(self, name: str, *, plain_http: bool = False) -> None:
        self.name = name
        host, found, self._path = name.partition("/")
        if not found or not self._path:
            raise ReleaseError(f"--registry: {name!r} names no repository: write HOST/PATH")
        self._base = f"{'http' if plain_http else 'https'}://{host}"
        self._pool = urllib3.PoolManager(
            timeout=_SECONDS, retries=urllib3.Retry(total=0, redirect=_REDIRECTS)
        )
        self._authorization: Mapping[str, str] = _basic()

    def push(self, tag: str, content: bytes, blobs: Sequence[Blob]) -> str:
        """Push a manifest after what it points to; return its digest.

        Raises:
            ReleaseError: the registry refuses.
            UnavailableError: the registry cannot be reached.
        """
        for blob in blobs:
            self._push_blob(blob)
        self._put(f"manifests/{tag}", content, MANIFEST)
        return digest(content)

    def require_free(self, tag: str, expected: str) -> None:
        """Require that a tag is not there, or is what we push.

        Raises:
            ReleaseError: it has another content.
        """
        answer = self._ask("GET", f"manifests/{tag}", headers={"Accept": MANIFEST})
        if answer.status == 404:
            return
        _require(answer, 200, f"read {self.name}:{tag}")
        if digest(answer.data) != expected:
            raise ReleaseError(
                f"{self.name}:{tag} exists and has {digest(answer.data)}: {_CONFLICT}"
            )

    def sign(self, subject: str, signer: Signer) -> None:
        """Attach a signature to what the repository has under the digest ``subject``.

        Raises:
            ReleaseError: the registry refuses.
            UnavailableError: the registry cannot be reached.
        """
        document = signing.payload(self.name, subject)
        signature = signer.blob(document).decode()
        layer = Blob(
            media_type=signing.PAYLOAD,
            content=document,
            annotations={signing.SIGNATURE: signature},
        )
        diffs = {"type": "layers", "diff_ids": [layer.digest]}
        config = {"architecture": "", "os": "", "config": {}, "rootfs": diffs}
        blob = Blob(media_type=CONFIG, content=json.dumps(config, sort_keys=True).encode())
        self.push(signing.tag(subject), manifest(blob, [layer]), [blob, layer])

    def _push_blob(self, blob: Blob) -> None:
        if self._ask("HEAD", f"blobs/{blob.digest}").status == 200:
            return
        begun = self._ask("POST", "blobs/uploads/")
        _require(begun, 202, f"begin an upload to {self.name}")
        place = urljoin(f"{self._url('')}", begun.headers["Location"])
        place += f"{'&' if '?' in place else '?'}{urlencode({'digest': blob.digest})}"
        self._put(place, blob.content, "application/octet-stream")

    def _put(self, place: str, content: bytes, media_type: str) -> None:
        answer = self._ask("PUT", place, body=content, headers={"Content-Type": media_type})
        _require(answer, 201, f"push to {self.name}")

    def _url(self, place: str) -> str:
        return urljoin(f"{self._base}/v2/{self._path}/", place)

    def _ask(self, method: str, place: str, **more: Any) -> urllib3.BaseHTTPResponse:
        answer = self._send(method, place, **more)
        if answer.status == 401 and self._signed_in(answer.headers.get("WWW-Authenticate", "")):
            answer = self._send(method, place, **more)
        return answer

    def _send(
        self, method: str, place: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> urllib3.BaseHTTPResponse:
        url = self._url(place)
        # A registry may name a place of another host for an upload: no credentials go there.
        ours = self._authorization if url.startswith(f"{self._base}/") else {}
        return self._request(method, url, headers={**(headers or {}), **ours}, **more)

    def _request(self, method: str, url: str, **more: Any) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(method, url, **more)
        except urllib3.exceptions.HTTPError as exc:
            raise UnavailableError(f"{url} cannot be reached: {exc}") from exc

    def _signed_in(self, offered: str) -> bool:
        """Get a token from the service that the registry names, if it names one."""
        challenge = tokens.parse(offered)
        if challenge is None or not challenge.realm:
            return False
        query = {"service": challenge.service, "scope": f"repository:{self._path}:pull,push"}
        url = f"{challenge.realm}?{urlencode(query)}"
        if not url.startswith("https://") and self._base.startswith("https://"):
            raise ReleaseError(f"{self._base} names a token service without TLS: {challenge.realm}")
        answer = self._request("GET", url, headers=_basic())
        _require(answer, 200, f"sign in at {challenge.realm}")
        told = untrusted.load_json(answer.data, dict[str, Any], size=_MAX_TOKEN)
        self._authorization = {
            "Authorization": f"Bearer {told.get('token') or told.get('access_token')}"
        }
        return True


def manifest(config: Blob, layers: Sequence[Blob]) -> bytes:
    """Return the manifest of an image, a chart or a signature."""
    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(),
        "layers": [layer.descriptor() for layer in layers],
    }
    return json.dumps(content, sort_keys=True).encode()


def digest(content: bytes) -> str:
    """Return the digest by which a registry knows some bytes."""
    return f"sha256:{sha256(content).hexdigest()}"


def _basic() -> Mapping[str, str]:
    username, password = os.environ.get(USERNAME, ""), os.environ.get(PASSWORD, "")
    if not username:
        return {}
    return {
        "Authorization": urllib3.make_headers(basic_auth=f"{username}:{password}")["authorization"]
    }


def _require(answer: urllib3.BaseHTTPResponse, status: int, what: str) -> None:
    if answer.status != status:
        remedy = f"; set {USERNAME} and {PASSWORD}" if answer.status in (401, 403) else ""
        raise ReleaseError(f"cannot {what}: the registry answers {answer.status}{remedy}")
