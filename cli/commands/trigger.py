"""``penstock trigger receiver``: call a Receiver as its sender would, to see that it works.

The token is read from the Receiver's Secret, and used as the type demands. With ``--token`` no
cluster is asked, because the path is made of the token, the name and the namespace.
"""

import base64
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, get_args

import click

from cli import errors, examples, kindtree, progress, session
from cli.commands import reconcile
from crds import RECEIVER
from crds.notification_receiver import ReceiverType
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_SECONDS: Final = 30.0
_STANDARD_INPUT: Final = "-"
_ISSUED: Final = ("gcr", "generic-oidc")
_BRACES: Final = ("{", "[")


@click.group("trigger", cls=kindtree.AliasGroup, no_args_is_help=True)
def trigger() -> None:
    """Call a Receiver as its sender would."""


@trigger.command(
    "receiver",
    epilog=examples.example(
        "penstock trigger receiver fleet --address https://hooks.example.com --event push",
        "kubectl port-forward -n penstock-system svc/webhook-receiver 9292:80 & \\\n"
        "  penstock trigger receiver fleet",
    ),
)
@click.argument("name")
@click.option(
    "--address",
    "--url",
    "address",
    default="http://127.0.0.1:9292",
    show_default=True,
    metavar="URL",
    help="Where hooks are taken.",
)
@click.option("--event", default="push", show_default=True, help="Name of the event.")
@click.option(
    "--payload",
    metavar="JSON|FILE",
    help="Body of the request, or the file with it; - is standard input. Defaults to {}.",
)
@click.option(
    "--token",
    default="",
    help="Token of the Receiver; then no cluster is asked, and --type counts.",
)
@click.option(
    "--oidc-token",
    "oidc",
    default="",
    envvar="FLUX_TRIGGER_RECEIVER_OIDC_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Token of an issuer, for generic-oidc and gcr.",
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(get_args(ReceiverType)),
    default="generic",
    show_default=True,
    help="Type of the Receiver, with --token.",
)
@session.options
def receiver(*, name: str, address: str, payload: str | None, **said: Any) -> None:
    """Send a request to a Receiver, signed as its type demands."""
    proof = _Proof(
        kind=said.pop("kind"),
        token=said.pop("token").encode(),
        oidc=said.pop("oidc"),
        event=said.pop("event"),
    )
    connection, body = session.connection(said), _body(payload)
    if proof.token:
        key = ObjectKey(session.offline_namespace(connection), name)
        session.run_offline(_send(name, address, _offline(key, proof, body)))
        return

    async def work(opened: session.Session) -> None:
        await _send(name, address, await _asked(opened, name, proof, body))

    session.run(connection, work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    """What shows who sends: a type, its token, and the name of an event."""

    kind: str
    token: bytes = field(repr=False)
    oidc: str = field(repr=False)
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What is sent to which path."""

    path: str
    headers: Mapping[str, str]
    body: bytes


def _offline(key: ObjectKey, proof: _Proof, body: bytes) -> _Request:
    from controllers.notification.receiving import senders  # noqa: PLC0415 - as in `_headers`

    path = senders.path(proof.token, key.name, key.namespace)
    return _Request(path=path, headers=_headers(proof, body), body=body)


async def _asked(opened: session.Session, name: str, proof: _Proof, body: bytes) -> _Request:
    """Return the request to a Receiver as the cluster has it."""
    key = ObjectKey(opened.namespace, name)
    obj = await reconcile.live(opened, RECEIVER, key, verb="trigger")
    path = dig(obj, "status", "webhookPath", default="")
    if not path:
        raise errors.UsageError(
            f"Receiver {key} has no path yet: see `penstock get receivers {name}`"
        )
    own = replace(proof, kind=str(dig(obj, "spec", "type")), token=await _token(opened, obj))
    return _Request(path=path, headers=_headers(own, body), body=body)


def _body(payload: str | None) -> bytes:
    if payload is None:
        return b"{}"
    if payload == _STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if payload.lstrip().startswith(_BRACES):
        return payload.encode()
    try:
        return Path(payload).read_bytes()
    except OSError as exc:
        raise errors.UsageError(
            f"--payload: {payload!r} is not a JSON object, and no file that can be read: "
            f"{exc.strerror}"
        ) from exc


async def _token(opened: session.Session, obj: Json) -> bytes:
    name = dig(obj, "spec", "secretRef", "name", default="")
    if not name:
        return b""
    found = await opened.api.get(_SECRET, name, opened.namespace)
    return base64.b64decode(dig(found, "data", "token", default="")).strip()


def _headers(proof: _Proof, body: bytes) -> Mapping[str, str]:
    """Return the headers that prove who sends.

    Raises:
        UsageError: the type wants a token of an issuer, and there is none.
    """
    # aiohttp, which help does not need
    from controllers.notification.receiving.senders import signed  # noqa: PLC0415

    kind, token, event = proof.kind, proof.token, proof.event
    if kind in _ISSUED and not proof.oidc:
        raise errors.UsageError(
            f"a Receiver of the type {kind} wants a token of its issuer: give it with --oidc-token"
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
        **dict.fromkeys(_ISSUED, lambda: {"Authorization": f"Bearer {proof.oidc}"}),
        "cdevents": lambda: {"Ce-Type": event, "Ce-Id": once, "Ce-Source": "penstock"},
    }
    return {"Content-Type": "application/json", **rows.get(kind, dict)()}


async def _send(name: str, address: str, request: _Request) -> None:
    from toolkit.remote.http.errors import HttpError  # noqa: PLC0415 - as above
    from toolkit.remote.http.http import Http  # noqa: PLC0415
    from toolkit.remote.http.rules import Endpoint  # noqa: PLC0415

    # The path is the secret of a generic Receiver.
    shown = f"{request.path[:14]}…"
    progress.action(f"sending a request to {address}{shown}")
    try:
        async with (
            Http() as http,
            http.request(
                "POST",
                f"{address.rstrip('/')}{request.path}",
                endpoint=Endpoint(plain_http=True),
                headers=request.headers,
                body=request.body,
                timeout=_SECONDS,
            ) as response,
        ):
            status = response.status
    except HttpError as exc:
        told = str(exc).replace(request.path, shown)
        remedy = "see --address, and docs/receivers.md for what a status means"
        raise errors.FailedError(f"the request was not taken: {told}: {remedy}") from exc
    if status >= 300:
        raise errors.FailedError(
            f"the request was redirected with HTTP {status}: correct --address"
        )
    progress.success(f"Receiver {name} took the request")
