"""``penstock trigger receiver``: call a Receiver as its sender would, to see that it works.

The token is read from the Receiver's Secret, and used as the type demands.
"""

import base64
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from cli import errors, examples, kindtree, progress, session
from cli.commands import reconcile
from crds import RECEIVER
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_SECONDS: Final = 30.0
_STANDARD_INPUT: Final = "-"


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
    default="http://127.0.0.1:9292",
    show_default=True,
    metavar="URL",
    help="Where hooks are taken.",
)
@click.option("--event", default="push", show_default=True, help="Name of the event.")
@click.option(
    "--payload",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="File with the body; - is standard input. Defaults to {}.",
)
@session.options
def receiver(*, name: str, address: str, event: str, payload: str | None, **arguments: Any) -> None:
    """Send a request to a Receiver, signed as its type demands."""
    connection = session.connection(arguments)
    body = _body(payload)

    async def work(opened: session.Session) -> None:
        key = ObjectKey(opened.namespace, name)
        obj = await reconcile.live(opened, RECEIVER, key, verb="trigger")
        path = dig(obj, "status", "webhookPath", default="")
        if not path:
            raise errors.UsageError(
                f"Receiver {key} has no path yet: see `penstock get receivers {name}`"
            )
        headers = _proof(obj, await _token(opened, obj), body, event)
        progress.action(f"sending a request to {address}{path[:14]}…")
        await _send(f"{address.rstrip('/')}{path}", headers, body)
        progress.success(f"Receiver {name} took the request")

    session.run(connection, work)


def _body(payload: str | None) -> bytes:
    if payload is None:
        return b"{}"
    if payload == _STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(payload).read_bytes()
    except OSError as exc:
        raise errors.UsageError(f"--payload: {payload} cannot be read: {exc.strerror}") from exc


async def _token(opened: session.Session, obj: Json) -> bytes:
    name = dig(obj, "spec", "secretRef", "name", default="")
    if not name:
        return b""
    found = await opened.api.get(_SECRET, name, opened.namespace)
    return base64.b64decode(dig(found, "data", "token", default="")).strip()


def _proof(obj: Json, token: bytes, body: bytes, event: str) -> Mapping[str, str]:
    """Return the headers that prove who sends.

    Raises:
        UsageError: the type wants a token of an issuer.
    """
    # aiohttp, which help needs none of
    from controllers.notification.receiving.senders import signed  # noqa: PLC0415

    kind = str(dig(obj, "spec", "type"))
    if kind in {"gcr", "generic-oidc"}:
        raise errors.UsageError(
            f"a Receiver of the type {kind} wants a token of its issuer: call it from there"
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
        "cdevents": lambda: {"Ce-Type": event, "Ce-Id": once, "Ce-Source": "penstock"},
    }
    return {"Content-Type": "application/json", **rows.get(kind, dict)()}


async def _send(url: str, headers: Mapping[str, str], body: bytes) -> None:
    from toolkit.remote.http.errors import HttpError  # noqa: PLC0415 - as above
    from toolkit.remote.http.http import Http  # noqa: PLC0415
    from toolkit.remote.http.rules import Endpoint  # noqa: PLC0415

    try:
        async with (
            Http() as http,
            http.request(
                "POST",
                url,
                endpoint=Endpoint(plain_http=True),
                headers=headers,
                body=body,
                timeout=_SECONDS,
            ) as response,
        ):
            status = response.status
    except HttpError as exc:
        remedy = "see docs/receivers.md for what the status means"
        raise errors.FailedError(f"the request was not taken: {exc}: {remedy}") from exc
    if status >= 300:
        raise errors.FailedError(
            f"the request was redirected with HTTP {status}: correct --address"
        )
