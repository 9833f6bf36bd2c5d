"""``penstock trigger receiver``: call a Receiver as its sender would, to test it.

The token is read from the Receiver's Secret, and used as the type requires. With ``--token``, or
for ``generic-oidc``, no cluster is needed, because the path is computed from the token, the name
and the namespace.
"""

import base64
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

import click

from cli import age, completing, errors, examples, kindtree, reconciling, session
from cli.stack import state
from cli.triggering import issuing, proof, sending
from cli.triggering.proof import Proof, Request
from crds import RECEIVER
from crds.notification_receiver import ReceiverType
from toolkit.kube import config
from toolkit.kube.errors import KubeConfigError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_STANDARD_INPUT: Final = "-"
_FORWARDED: Final = "http://127.0.0.1:9292"
"""Where `kubectl port-forward` puts the Receivers of an installation, by the documentation."""
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
        "penstock trigger receiver fleet --type generic-oidc --oidc-provider github \\\n"
        "  --address https://hooks.example.com",
    ),
)
@click.argument("name", shell_complete=completing.of(RECEIVER))
@click.option(
    "--address",
    "--url",
    "address",
    default="",
    metavar="URL",
    help="Address of the Receivers. The default is that of the local `penstock up` if it runs for "
    f"this cluster, else {_FORWARDED}.",
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
    help="Token of the Receiver; the command then needs --type and contacts no cluster.",
)
@click.option(
    "--oidc-token",
    "oidc",
    default="",
    metavar="TOKEN",
    help=f"Token of an issuer, for generic-oidc and gcr; default is {issuing.VARIABLE}.",
)
@click.option(
    "--oidc-provider",
    "provider",
    type=click.Choice(issuing.PROVIDERS),
    help="CI to ask for the token of this job, for generic-oidc.",
)
@click.option(
    "--oidc-audience",
    "audience",
    default="",
    metavar="TEXT",
    help=f"Audience of that token; default is {issuing.AUDIENCE}.",
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(get_args(ReceiverType)),
    default="generic",
    show_default=True,
    help="Type of the Receiver, with --token or for generic-oidc.",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How often to repeat a request that gets no response, or 404, 408, 429 or 5xx.",
)
@click.option(
    "--retry-delay",
    type=age.DURATION,
    default="10s",
    show_default=True,
    help="Time between two requests.",
)
@session.options
def receiver(*, name: str, address: str, payload: str | None, **said: Any) -> None:
    """Send a request to a Receiver, signed as its type demands."""
    identity = issuing.Identity(
        token=said.pop("oidc"),
        provider=said.pop("provider") or "",
        audience=said.pop("audience"),
    )
    first = Proof(
        kind=said.pop("kind"), token=said.pop("token").encode(), oidc="", event=said.pop("event")
    )
    retries, delay = said.pop("retries"), said.pop("retry_delay")
    connection, body = session.connection(said), _body(payload)
    patience = sending.Patience(retries=retries, delay=delay, timeout=connection.timeout)
    if first.kind == proof.SECRETLESS and first.token:
        raise errors.UsageError(
            f"--token: a Receiver of the type {proof.SECRETLESS} has no Secret; leave it out"
        )

    async def alone() -> None:
        key = ObjectKey(session.offline_namespace(connection), name)
        own = replace(first, oidc=await issuing.token(identity, first.kind))
        where = address or _local() or _FORWARDED
        await sending.send(name, where, proof.offline(key, own, body), patience)

    async def work(opened: session.Session) -> None:
        request = await _asked(opened, name, first, identity, body)
        where = address or _local(opened.api.server) or _FORWARDED
        await sending.send(name, where, request, patience)

    if first.token or first.kind == proof.SECRETLESS:
        session.run_offline(alone(), seconds=connection.timeout)
    else:
        session.run(connection, work)


def _local(server: str = "") -> str:
    """Return the address of the Receivers of the local ``penstock up``, if it runs for a server."""
    record = state.running(state.default_directory())
    if record is None:
        return ""
    try:
        of_record = config.from_environment(record.kubeconfig).server
    except KubeConfigError:
        return ""
    return record.addresses.get("receivers", "") if server in {"", of_record} else ""


async def _asked(
    opened: session.Session, name: str, said: Proof, identity: issuing.Identity, body: bytes
) -> Request:
    """Return the request to a Receiver as the cluster has it."""
    key = ObjectKey(opened.namespace, name)
    obj = await reconciling.live(opened, RECEIVER, key, verb="trigger")
    path = dig(obj, "status", "webhookPath", default="")
    if not path:
        raise errors.UsageError(
            f"Receiver {key} has no path yet: see `penstock get receivers {name}`"
        )
    kind = str(dig(obj, "spec", "type"))
    own = replace(
        said,
        kind=kind,
        token=await _token(opened, obj),
        oidc=await issuing.token(identity, kind),
    )
    return Request(path=path, headers=proof.headers(own, body), body=body)


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
