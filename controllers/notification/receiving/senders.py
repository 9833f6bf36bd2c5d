"""Authentication of each type of sender: a row for each type.

As Flux (notification-controller ``internal/server/receiver_handlers.go``). Comparisons take
constant time. A delivery that was carried out is refused when it arrives again:

- Where the body is signed, by the digest of the body. It is the only thing that is proved: ids in
  headers, the form of the signature and its algorithm can be changed by someone who saw a delivery.
  The exception is ``generic-hmac``, whose senders may sign the same body each time.
- Where a token is shown, by the id of the token or delivery, and without one by the body.
- Where a sender only knows the path, a repetition proves nothing: someone who saw the request can
  send any other.
"""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from controllers.notification.receiving.oidc import Tokens
from controllers.notification.receiving.request import (
    Checked,
    Hook,
    RefusedError,
    require_event,
)

Check = Callable[[Hook, Tokens], Awaitable[Checked]]

_ALGORITHMS: Final = frozenset({"sha1", "sha224", "sha256", "sha384", "sha512"})
_HEX: Final = re.compile(r"[0-9a-f]{8,128}")


def signed(key: bytes, body: bytes, algorithm: str) -> str:
    """Return the signature of a body in hexadecimal digits."""
    return hmac.new(key, body, algorithm).hexdigest()


def _require_signature(hook: Hook, text: str, *, default: str = "") -> None:
    """Require ``<algorithm>=<hex>``, the signature of the body.

    Raises:
        RefusedError: it is missing or wrong.
    """
    algorithm, equals, value = text.partition("=")
    if not equals:
        algorithm, value = default, text
    if algorithm not in _ALGORITHMS or not _HEX.fullmatch(value):
        raise RefusedError("the signature is missing, or not <algorithm>=<hexadecimal digits>")
    if not hook.token:
        raise RefusedError("the Receiver's Secret has no token", status=503)
    if not hmac.compare_digest(signed(hook.token, hook.body, algorithm), value):
        raise RefusedError("the signature is wrong")


def _require_token(hook: Hook, given: str) -> None:
    if not hook.token or not hmac.compare_digest(given.encode(), hook.token):
        raise RefusedError("the token is wrong")


async def _generic(_hook: Hook, _tokens: Tokens) -> Checked:
    """Accept every request: the sender knows the path."""
    return Checked()


async def _generic_hmac(hook: Hook, _tokens: Tokens) -> Checked:
    _require_signature(hook, hook.header("X-Signature"))
    return Checked()


async def _generic_oidc(hook: Hook, tokens: Tokens) -> Checked:
    claims = await tokens.require_one_of(hook)
    given = str(claims.get("jti") or "")
    return Checked(once=(given or f"{hook.header('Authorization')} {hook.digest}",))


async def _github(hook: Hook, _tokens: Tokens) -> Checked:
    given = hook.header("X-Hub-Signature-256") or hook.header("X-Hub-Signature")
    _require_signature(hook, given)
    event = hook.header("X-GitHub-Event")
    require_event(hook, event)
    return Checked(event=event, once=(hook.digest,))


async def _gitlab(hook: Hook, _tokens: Tokens) -> Checked:
    _require_token(hook, hook.header("X-Gitlab-Token"))
    event = hook.header("X-Gitlab-Event")
    require_event(hook, event)
    # Two pushes of the same commits have equal bodies, and ids of their own.
    given = hook.header("X-Gitlab-Event-UUID")
    return Checked(event=event, once=(given or hook.digest,), also=(hook.digest,))


async def _bitbucket(hook: Hook, _tokens: Tokens) -> Checked:
    _require_signature(hook, hook.header("X-Hub-Signature"))
    event = hook.header("X-Event-Key")
    require_event(hook, event)
    return Checked(event=event, once=(hook.digest,))


async def _harbor(hook: Hook, _tokens: Tokens) -> Checked:
    _require_token(hook, hook.header("Authorization"))
    return Checked(once=(hook.digest,))


async def _nexus(hook: Hook, _tokens: Tokens) -> Checked:
    _require_signature(hook, hook.header("X-Nexus-Webhook-Signature"), default="sha1")
    event = _text(_mapping(hook.json()), "action")
    return Checked(event=event, once=(hook.digest,))


async def _dockerhub(hook: Hook, _tokens: Tokens) -> Checked:
    body = _mapping(hook.json())
    _text(_mapping(body.get("push_data")), "tag")
    _text(_mapping(body.get("repository")), "repo_url")
    return Checked()


async def _quay(hook: Hook, _tokens: Tokens) -> Checked:
    _text(_mapping(hook.json()), "docker_url")
    return Checked()


async def _acr(hook: Hook, _tokens: Tokens) -> Checked:
    body = _mapping(hook.json())
    target = _mapping(body.get("target"))
    _text(target, "repository")
    event = _text(body, "action")
    return Checked(event=event, once=(str(body.get("id") or hook.digest),))


async def _gcr(hook: Hook, tokens: Tokens) -> Checked:
    # CVE-2026-40109: the token must be one for this Receiver, of the account that it names.
    await tokens.require_google(hook)
    message = _mapping(_mapping(hook.json()).get("message"))
    _text(message, "data")
    given = str(message.get("messageId") or message.get("message_id") or "")
    return Checked(once=(given, hook.digest))


async def _cdevents(hook: Hook, _tokens: Tokens) -> Checked:
    event = hook.header("Ce-Type")
    if not (event and hook.header("Ce-Id") and hook.header("Ce-Source")):
        raise RefusedError("the headers Ce-Id, Ce-Source and Ce-Type must be there")
    _mapping(hook.json())
    require_event(hook, event)
    return Checked(event=event, once=(f"{hook.header('Ce-Source')} {hook.header('Ce-Id')}",))


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RefusedError("the body is not what this type of sender sends")
    return value


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise RefusedError(f"the body has no '{name}', which this type of sender sends")
    return found


SENDERS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "generic": _generic,  # knows the path
        "generic-hmac": _generic_hmac,  # signs the body
        "generic-oidc": _generic_oidc,  # shows a token of an issuer
        "github": _github,
        "gitlab": _gitlab,
        "bitbucket": _bitbucket,
        "harbor": _harbor,
        "dockerhub": _dockerhub,  # knows the path; the body must have the sender's format
        "quay": _quay,
        "gcr": _gcr,  # shows a token of Google
        "nexus": _nexus,
        "acr": _acr,
        "cdevents": _cdevents,
    }
)


def path(token: bytes, name: str, namespace: str) -> str:
    """Return the path of a Receiver (``internal/controller/receiver_controller.go``)."""
    digest = hashlib.sha256(token + name.encode() + namespace.encode()).hexdigest()
    return f"/hook/{digest}"
