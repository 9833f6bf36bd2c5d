"""Readers of what is sent to our ports, and of what clusters answer."""

import asyncio
import base64
from types import SimpleNamespace
from typing import Any, Final

import msgspec
from multidict import CIMultiDict, MultiDict

from apiserver import item, negotiation, paging, position, requestinfo, selectors, status
from apiserver.artifacts import comparing, observed, surveying
from apiserver.auth import configuration, requestheader
from apiserver.inventories import appliers, wishes
from cli import age as ages
from cli import decoding, loglines
from cli.errors import UsageError
from controllers.notification.events import event, handover, matching
from controllers.notification.events.event import EventError
from controllers.notification.receiving import oidc, senders
from controllers.notification.receiving.request import Hook, RefusedError
from crds import KINDS
from crds.notification_receiver import Receiver
from tests.fakes.evaluating import NoEvaluator
from tests.fuzz import hostile, languages
from tests.fuzz.evidence import _pems
from tests.fuzz.reader import Row, each, text, texts
from toolkit import forwarding
from toolkit.apply import fields
from toolkit.apply.owned import pages
from toolkit.errors import PenstockError
from toolkit.helm import gates
from toolkit.kube import client, informer, transport
from toolkit.native import questions, relayed
from toolkit.objects import GroupVersionKind
from toolkit.policy import origins
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http
from webhooks import definitions, imagechecks, namespaces, protection, standings
from webhooks.validation import circles

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
        **{name: text(data)[:64] for name in ("Ce-Id", "Ce-Source", "Ce-Type", "X-Signature")},
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
_token = each(
    oidc.keys,
    lambda data: oidc.unverified(text(data)),
    lambda data: oidc.unverified(f"e30.{base64.urlsafe_b64encode(data).decode()}.e30"),
    refuses=(RefusedError,),
)


def _left(data: bytes) -> object:
    packed = handover.zlib.compress(data)
    found = {"binaryData": {handover._KEY: base64.b64encode(packed).decode()}}
    for raw in (found, {"binaryData": {handover._KEY: text(data)}}):
        try:
            handover._unpacked(raw)
        except (ValueError, LookupError, handover.zlib.error):
            continue
    return None


_DECODERS: Final = tuple(msgspec.json.Decoder(kind.model) for kind in KINDS)
_POD: Final = GroupVersionKind("", "v1", "Pod")
_MALFORMED: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


def _object(data: bytes) -> object:
    """Decode an object, a list, an event and a status as each client of a cluster does."""
    raw = msgspec.Raw(data)
    for parse in (
        *(decoder.decode for decoder in _DECODERS),
        appliers._KUSTOMIZATION.decode,
        appliers._HELM_RELEASE.decode,
        circles._DECODER.decode,
        comparing._INDEX.decode,
        definitions._DECODER.decode,
        imagechecks.decode,
        informer._EVENT.decode,
        informer._OBJECT.decode,
        item._DECODER.decode,
        namespaces.decode,
        observed.chart,
        observed.kustomization,
        observed.helm_release,
        protection._decode,
        standings._decode_source,
        surveying._INDEX.decode,
    ):
        try:
            parse(data)
        except _MALFORMED:
            continue
    return raw


def _answered(data: bytes) -> object:
    """Read an answer of a cluster with the functions that may raise typed errors alone."""
    for parse in (
        lambda: client._decoded(data),
        lambda: informer._page(data),
        lambda: informer._reported(msgspec.Raw(data)),
        lambda: pages._decoded(data, _POD, "a", {"u"}),
    ):
        try:
            parse()
        except PenstockError:
            continue
    gate = gates.records(namespace="a", release="b")
    return (
        transport._status(data, foreign=True),
        transport._status(data, foreign=False),
        fields.Item({"name": "a"}).named(f"k:{text(data)}"),
        origins.read({origins.RECORD: text(data)}),
        forwarding._statuses(data),
        gate("POST", "/api/v1/namespaces/a/secrets", data),
        gate("GET", f"/api/v1/namespaces/a/secrets?{text(data)[:9_000]}", b""),
        gate("GET", text(data), b""),
    )


def _worker(data: bytes) -> object:
    """Read what a worker answers, which may have been taken over."""
    for parse in (
        lambda: relayed.decode_error(data),
        lambda: questions.decode(data),
        lambda: questions.decode_send(len(data).to_bytes(4, "little") + data),
        lambda: questions.decode_send(data),
    ):
        try:
            parse()
        except PenstockError:
            continue
    return None


def _request(data: bytes) -> object:
    given = text(data)
    call: Any = SimpleNamespace(
        web=SimpleNamespace(headers=CIMultiDict({"Accept": given})), query={}
    )
    for parse in (
        lambda: selectors.parse_labels(given),
        lambda: selectors.parse_fields(given, {"metadata.name": str}),
        lambda: paging.decode(given),
        lambda: position.parse(given),
        lambda: negotiation.negotiate(call),
        lambda: wishes._fields(data),
    ):
        try:
            parse()
        except status.StatusError:
            continue
    return requestinfo.parse("GET", given, MultiDict({"fieldSelector": given}))


def _fronted(data: bytes) -> object:
    """Read the ConfigMap that names the front proxy, and the headers that it sends."""
    names = {
        f"requestheader-{name}": text(data)
        for name in ("allowed-names", "username-headers", "group-headers", "client-ca-file")
    }
    headers = CIMultiDict({f"X-Remote-Extra-{text(data)[:4096]}": text(data)[:4096]})
    requestheader._extra(headers, ("X-Remote-Extra-",))
    return configuration.decode({"data": names})


def _shown(data: bytes) -> object:
    """Read text of a cluster as commands do."""
    line = loglines.parse(text(data))
    told = loglines.render(line) if line else ""
    passes = line and loglines.Filter(since=_SINCE).passes(line)
    for parse in (
        lambda: ages.since(text(data)[:64], _SINCE),
        lambda: [decoding.decode(kind, {"spec": text(data)}) for kind in KINDS],
    ):
        try:
            parse()
        except (UsageError, ValueError):
            continue
    return told, passes


_SINCE: Final = ages.parse_time("2026-01-01T00:00:00Z")

_OBJECTS: Final = tuple(
    f"{module} json"
    for module in (
        *("apiserver/artifacts/comparing.py", "apiserver/artifacts/observed.py"),
        *("apiserver/artifacts/surveying.py", "apiserver/encoding.py", "apiserver/item.py"),
        *("apiserver/inventories/appliers.py", "apiserver/inventories/observation.py"),
        *("apiserver/registration.py", "certs/injection.py", "certs/keeper.py"),
        *("controllers/applying/admission.py", "controllers/applying/dependencies.py"),
        *("controllers/applying/watched.py", "controllers/grants.py"),
        *("controllers/image/component.py", "controllers/planning/revisions.py"),
        *("controllers/source/externalartifact.py", "controllers/source/pushed.py"),
        *("controllers/sourcepolicies.py", "toolkit/kube/undecoded.py"),
        "toolkit/policy/unreadable.py",
        *("toolkit/apply/live.py", "toolkit/kube/controller.py", "toolkit/kube/settling.py"),
        *("webhooks/arming.py", "webhooks/definitions.py", "webhooks/imagechecks.py"),
        *("webhooks/namespaces.py", "webhooks/protection.py", "webhooks/references.py"),
        *("webhooks/sourcepolicy.py", "webhooks/standings.py", "webhooks/validation/circles.py"),
    )
)
"""Modules that decode objects as the API server sends them."""
_VIEWS: Final = (
    "apiserver/item.py archive",
    "toolkit/apply/live.py own",
    "webhooks/imagechecks.py own",
    "webhooks/namespaces.py own",
    "webhooks/validation/circles.py own",
)

ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="event",
        parse=_posted,
        samples=texts(_POSTED),
        refuses=(EventError,),
        worst=hostile.json,
        size=3 << 20,
        places=("controllers/notification/events/event.py json own",),
    ),
    Row(
        name="events that were handed over",
        parse=_left,
        samples=texts(
            '[{"namespace": "a", "provider": "b", "object": "c", "since": 1, "notice": {}}]'
        ),
        worst=lambda size: (bytes(32 * size), *hostile.json(size)),
        places=(
            "controllers/notification/events/handover.py archive json own",
            "controllers/notification/sending/sender.py json",
        ),
    ),
    Row(
        name="body of a webhook",
        parse=_hooked,
        samples=texts(
            '{"push_data": {"tag": "1"}, "repository": {"repo_url": "u"}, "docker_url": "d"}',
            '{"id": "1", "action": "push", "target": {"repository": "a", "tag": "b"}}',
        ),
        worst=hostile.json,
        size=5 << 20,
        seconds=6.0,
        memory=768,
        places=("controllers/notification/receiving/request.py json",),
    ),
    Row(
        name="token and keys of an issuer",
        parse=_token,
        shape=languages.TOKEN,
        samples=texts(
            '{"keys": [{"kty": "EC", "crv": "P-256", "kid": "a", "x": "AA", "y": "AA"},'
            ' {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "b", "alg": "RS256"}]}',
            '{"iss": "https://a.example", "exp": 4e9, "aud": ["b"]}',
            "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJhIn0.c2ln",
        ),
        size=256 << 10,
        worst=lambda size: (
            *hostile.json(size),
            b'{"keys": [{"kty": "RSA", "n": "' + b"f" * 200_000 + b'", "e": "AQAB"}]}',
            b'{"keys": [' + b",".join([b'{"kty": "oct", "k": "AA"}'] * 9_000) + b"]}",
            b'{"exp": 1e999, "nbf": ' + b"9" * 4_000 + b"}",
            b"." * 16_000,
            b"e30." * 4_000,
        ),
        places=("controllers/notification/receiving/oidc.py json token",),
    ),
    Row(
        name="object of a cluster",
        parse=_object,
        samples=texts(
            '{"apiVersion": "a/v1", "kind": "B", "metadata": {"namespace": "c", "name": "d"},'
            ' "spec": {"interval": "1m", "url": "https://a"}, "status": {"conditions": []}}'
        ),
        worst=hostile.json,
        size=3 << 20,
        seconds=4.0,
        places=(*_OBJECTS, *_VIEWS),
    ),
    Row(
        name="answer of a cluster",
        parse=_answered,
        shape=languages.SELECTOR,
        samples=texts(
            '{"kind": "Status", "status": "Failure", "code": 403, "details": {"causes": []}}',
            '{"kind": "List", "metadata": {}, "items": [{"metadata": {"name": "a"}}]}',
            '{"type": "helm.sh/release.v1", "metadata": {"name": "sh.helm.release.v1.b.v1"}}',
        ),
        worst=hostile.json,
        size=8 << 20,
        places=(
            "toolkit/apply/fields.py json",
            "toolkit/apply/owned/pages.py json own",
            "toolkit/forwarding.py json",
            "toolkit/helm/gates.py json pattern url",
            "toolkit/helm/reading.py json url",
            "toolkit/helm/witness.py json",
            "toolkit/kube/client.py json own",
            "toolkit/kube/errors.py own",
            "toolkit/kube/informer.py json",
            "toolkit/kube/secrets.py own",
            "toolkit/kube/transport.py json",
            "toolkit/policy/origins.py json",
        ),
    ),
    Row(
        name="request to the aggregated API",
        parse=_request,
        shape=languages.SELECTOR,
        samples=texts(
            "app in (a,b),!c,d!=e,f>1",
            "metadata.name=a",
            "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5,*/*",
            '{"apiVersion": "inventory.penstock.dev/v1", "kind": "PlanRequest", "force": true}',
        ),
        worst=lambda size: (*hostile.lists(size), *hostile.json(size)),
        size=64 << 10,
        places=(
            "apiserver/inventories/wishes.py json",
            "apiserver/listing.py own",
            "apiserver/negotiation.py own",
            "apiserver/paging.py json own",
            "apiserver/position.py own",
            "apiserver/requestinfo.py own",
            "apiserver/selectors.py own",
        ),
    ),
    Row(
        name="headers and CA of a front proxy",
        parse=_fronted,
        samples=lambda: (b'["front-proxy"]', *_pems()[:1]),
        worst=lambda size: (*hostile.pem(size), *hostile.lists(64 << 10)),
        size=256 << 10,
        places=(
            "apiserver/auth/configuration.py json own",
            "apiserver/auth/requestheader.py url",
        ),
    ),
    Row(
        name="answer of a worker",
        parse=_worker,
        samples=texts('{"classes": ["a.B"], "message": "c", "attributes": {"reason": "D"}}'),
        worst=hostile.json,
        places=(
            "toolkit/native/questions.py frames json own",
            "toolkit/native/relayed.py json own",
        ),
    ),
    Row(
        name="text of a cluster in the command line",
        parse=_shown,
        samples=texts('{"ts": "2026-11-27T05:00:00Z", "level": "info", "msg": "a", "x": 1e300}'),
        worst=lambda size: (*hostile.json(size), *hostile.times()),
        size=256 << 10,
        runs="cli",
        places=("cli/age.py own time", "cli/decoding.py own", "cli/loglines.py json own"),
    ),
)
