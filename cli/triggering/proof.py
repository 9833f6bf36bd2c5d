"""The proof of the sender for a Receiver: path and headers by its type. Pure."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cli import errors
from toolkit.objects import ObjectKey

ISSUED: Final = ("gcr", "generic-oidc")
"""Types whose senders have a token of an issuer."""
SECRETLESS: Final = "generic-oidc"
"""The type whose Receivers have no Secret: its path is made of name and namespace alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A type, the token of its Secret, a token of an issuer, and the name of an event."""

    kind: str
    token: bytes = field(repr=False)
    oidc: str = field(repr=False)
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request: its path, its headers and its body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


def offline(key: ObjectKey, proof: Proof, body: bytes) -> Request:
    """Return the request to a Receiver without reading the cluster."""
    from controllers.notification.receiving import senders  # noqa: PLC0415 - as in `headers`

    path = senders.path(proof.token, key.name, key.namespace)
    return Request(path=path, headers=headers(proof, body), body=body)


def headers(proof: Proof, body: bytes) -> Mapping[str, str]:
    """Return the headers that prove the sender.

    Raises:
        UsageError: the type needs a token of an issuer, and there is none.
    """
    # aiohttp, which help does not need
    from controllers.notification.receiving.senders import signed  # noqa: PLC0415

    kind, token, event = proof.kind, proof.token, proof.event
    if kind in ISSUED and not proof.oidc:
        raise errors.UsageError(
            f"a Receiver of the type {kind} wants a token of its issuer: give it with "
            "--oidc-token, or name the CI with --oidc-provider"
        )
    text, once = token.decode(errors="replace"), uuid.uuid4().hex
    rows: Mapping[str, Callable[[], dict[str, str]]] = {
        "generic-hmac": lambda: {"X-Signature": f"sha256={signed(token, body, 'sha256')}"},
        "github": lambda: {
            "X-Hub-Signature-256": f"sha256={signed(token, body, 'sha256')}",
            "X-GitHub-Event": event,
        },
        "gitlab": lambda: {"X-Gitlab-Token": text, "X-Gitlab-Event": event},
        "bitbucket": lambda: {
            "X-Hub-Signature": f"sha256={signed(token, body, 'sha256')}",
            "X-Event-Key": event,
        },
        "harbor": lambda: {"Authorization": text},
        "nexus": lambda: {"X-Nexus-Webhook-Signature": signed(token, body, "sha1")},
        **dict.fromkeys(ISSUED, lambda: {"Authorization": f"Bearer {proof.oidc}"}),
        "cdevents": lambda: {"Ce-Type": event, "Ce-Id": once, "Ce-Source": "penstock"},
    }
    return {"Content-Type": "application/json", **rows.get(kind, dict)()}
