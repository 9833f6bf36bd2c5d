"""Static documents: bytes, their media type, and their entity tag.

Answering them needs no cache and no other server, so discovery works when nothing else does. A
client that has a document already gets 304 instead.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec
from aiohttp import web

from apiserver import negotiation, status
from apiserver.negotiation import Clause
from toolkit.objects import Json

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Document:
    """One document; ``tag`` is the SHA-512 of its bytes, in capitals, as upstream has it."""

    body: bytes
    content_type: str
    tag: str

    @classmethod
    def of(cls, content: Json, *, content_type: str = JSON) -> "Document":
        """Encode a document."""
        body = msgspec.json.encode(content)
        return cls(body, content_type, hashlib.sha512(body).hexdigest().upper())

    def answer(self, request: web.Request, *, immutable: bool = False) -> web.Response:
        """Answer with the document, or with 304 if the client has it (RFC 9110, 13.1.2)."""
        quoted = f'"{self.tag}"'
        headers = {
            "ETag": quoted,
            "Vary": "Accept",
            "Cache-Control": "public, immutable, max-age=31536000" if immutable else "public",
        }
        if _has(request.headers.get("If-None-Match", ""), quoted):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers | {"Content-Type": self.content_type})


def plain_json_or_refuse(request: web.Request) -> None:
    """Require that the client accepts plain JSON.

    Raises:
        StatusError: 406. A wrong answer here would be cached for the whole cluster (k/k#119662).
    """
    if not any(takes_json(clause) and not clause.parameters for clause in accepted(request)):
        raise status.not_acceptable(JSON)


def accepted(request: web.Request) -> list[Clause]:
    """Return the accepted media types, best first; without the header, any type is accepted."""
    header = ",".join(request.headers.getall("Accept", ()))
    return negotiation.parse_accept(header or "*/*")


def takes_json(clause: Clause) -> bool:
    """Tell whether a clause is about JSON."""
    return clause.weight > 0 and (clause.type, clause.subtype) in {
        ("application", "json"),
        ("application", "*"),
        ("*", "*"),
    }


def _has(header: str, tag: str) -> bool:
    tags = {each.strip().removeprefix("W/") for each in header.split(",")}
    return tag in tags or "*" in tags
