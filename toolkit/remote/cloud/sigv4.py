"""AWS Signature Version 4: prove that a request comes from the holder of a secret key.

Pure: nothing is sent and no clock is read. The rules are in docs.aws.amazon.com, "Create a signed
AWS API request" (IAM User Guide) and, for S3's two differences, "Authenticating Requests" (S3 API).
Chunked uploads and the asymmetric variant (SigV4a) are not supported.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
"""In place of the body's hash, where TLS alone protects the body (S3)."""

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_EMPTY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The signing keys: an access key and its secret; with a token, of a session."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Signs requests to one service in one region."""

    keys: Keys
    region: str
    service: str

    def headers(
        self,
        method: str,
        url: str,
        *,
        now: datetime,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = b"",
    ) -> dict[str, str]:
        """Return the headers to send: the given ones, and those with the signature.

        The URL must be sent unchanged, with percent-encoded path and query. With ``body`` None, the
        signature does not cover the body (``UNSIGNED-PAYLOAD``; S3 only).
        """
        stamp = _stamp(now)
        content = UNSIGNED_PAYLOAD if body is None else hashlib.sha256(body).hexdigest()
        sent = {**(headers or {}), "X-Amz-Date": stamp}
        if self.service == "s3":
            sent["X-Amz-Content-Sha256"] = content
        if self.keys.session_token:
            sent["X-Amz-Security-Token"] = self.keys.session_token
        signed = {"host": urlsplit(url).netloc, **sent}
        canonical, names = self._canonical(method, url, urlsplit(url).query, signed, content)
        signature = self._signature(canonical, stamp)
        credential = f"{self.keys.access_key}/{self._scope(stamp)}"
        sent["Authorization"] = (
            f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
        )
        return sent

    def presigned(
        self,
        method: str,
        url: str,
        *,
        now: datetime,
        seconds: int,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Return the URL with the signature in its query, valid for ``seconds``.

        A client that uses it must also send ``headers``.
        """
        stamp = _stamp(now)
        signed = {"host": urlsplit(url).netloc, **(headers or {})}
        added = {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.keys.access_key}/{self._scope(stamp)}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": str(seconds),
        }
        if self.keys.session_token:
            added["X-Amz-Security-Token"] = self.keys.session_token
        added["X-Amz-SignedHeaders"] = ";".join(sorted(name.lower() for name in signed))
        parts = urlsplit(url)
        fresh = "&".join(f"{_encode(key)}={_encode(value)}" for key, value in added.items())
        query = f"{parts.query}&{fresh}" if parts.query else fresh
        content = UNSIGNED_PAYLOAD if self.service == "s3" else _EMPTY
        canonical, _ = self._canonical(method, url, query, signed, content)
        signature = self._signature(canonical, stamp)
        return parts._replace(query=f"{query}&X-Amz-Signature={signature}").geturl()

    def text_signature(self, canonical: str, *, now: datetime) -> str:
        """Return the signature of a canonical request that is not HTTP's (CodeCommit)."""
        return self._signature(canonical, _stamp(now), shown=now.strftime("%Y%m%dT%H%M%S"))

    def _canonical(
        self, method: str, url: str, query: str, headers: Mapping[str, str], content: str
    ) -> tuple[str, str]:
        """Return the canonical request and the names of the signed headers."""
        lines = sorted((name.lower(), " ".join(value.split())) for name, value in headers.items())
        names = ";".join(name for name, _ in lines)
        parts = (
            method,
            self._path(urlsplit(url).path),
            _query(query),
            "".join(f"{name}:{value}\n" for name, value in lines),
            names,
            content,
        )
        return "\n".join(parts), names

    def _path(self, path: str) -> str:
        if self.service == "s3":
            return quote(unquote(path or "/"), safe="/-_.~")
        # For other services the path is normalised and encoded twice.
        kept: list[str] = []
        for part in path.split("/"):
            if part == "..":
                del kept[-1:]
            elif part not in {"", "."}:
                kept.append(part)
        slash = "/" if kept and path.endswith("/") else ""
        return quote("/" + "/".join(kept) + slash, safe="/-_.~")

    def _scope(self, stamp: str) -> str:
        return f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"

    def _signature(self, canonical: str, stamp: str, *, shown: str = "") -> str:
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = "\n".join((_ALGORITHM, shown or stamp, self._scope(stamp), digest))
        key = b"AWS4" + self.keys.secret_key.encode()
        for part in (stamp[:8], self.region, self.service, "aws4_request"):
            key = _mac(key, part)
        return _mac(key, text).hex()


def _query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(
        f"{key}={value}" for key, value in sorted((_encode(k), _encode(v)) for k, v in pairs)
    )


def _encode(text: str) -> str:
    return quote(text, safe="-_.~")


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
