"""The endpoint of hooks: ``POST /hook/<digest>``, the only port that senders need to reach.

The statuses are those of Flux: 404 for a path of no Receiver, 503 for one that is suspended or not
ready, 400 for a request that its check refuses, 500 if a request of a reconciliation failed, and
200 otherwise. Beyond Flux: 413 for a body that is too large, 408 for one that takes too long, and
409 for a delivery that was carried out before.
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import prometheus_client as prom
from aiohttp import web

from controllers.notification.bodies import Bodies, BodyError
from controllers.notification.receiving import senders
from controllers.notification.receiving.oidc import Tokens
from controllers.notification.receiving.replays import Replays
from controllers.notification.receiving.request import MOST_BYTES, Checked, Hook, RefusedError
from controllers.notification.receiving.requests import Requests
from controllers.notification.receiving.resources import Resources
from crds.notification_receiver import Receiver
from toolkit.errors import PenstockError
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.secrets import Secrets
from toolkit.objects import Json, ObjectKey, ObjectRef
from toolkit.turns import BusyError, Turns

logger = logging.getLogger(__name__)

HOOKS: Final = prom.Counter(
    "penstock_hooks", "Requests to Receivers, by type and status of the answer.", ("type", "code")
)
_AT_ONCE: Final = 32
"""Requests that are acted upon."""
_AT_ONCE_WRITES: Final = 16
_FILTERED: Final = 1 << 20
"""Bytes of a body that expressions can read: with this size, each object takes 75 ms (measured)."""


class Paths:
    """The Receivers by path: usually one, unless a user has copied a path into a status."""

    def __init__(self, informer: Informer[Receiver]) -> None:
        self._found: dict[str, dict[ObjectKey, None]] = {}
        self._informer = informer
        informer.subscribe(self._changed)

    def find(self, path: str) -> Sequence[Receiver]:
        """Return the Receivers whose status has a path."""
        found = (self._informer.get(key) for key in self._found.get(path, ()))
        return [each for each in found if each is not None]

    def _changed(self, change: Change[Receiver]) -> None:
        before = change.old.status.webhook_path if change.old else ""
        after = change.new.status.webhook_path if change.new else ""
        if before and before != after:
            self._found.get(before, {}).pop(change.key, None)
            if not self._found.get(before):
                self._found.pop(before, None)
        if after:
            self._found.setdefault(after, {})[change.key] = None


class Hooks:
    """Checks requests, and requests reconciliations."""

    def __init__(
        self,
        *,
        find: Callable[[str], Sequence[Receiver]],
        secrets: Secrets,
        tokens: Tokens,
        resources: Resources,
        requests: Requests,
    ) -> None:
        self._find = find
        self._secrets = secrets
        self._tokens = tokens
        self._resources = resources
        self._requests = requests
        self._replays = Replays()
        self._bodies = Bodies(MOST_BYTES)
        self._turns = Turns(places=_AT_ONCE)

    def application(self) -> web.Application:
        """Return the server."""
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_post("/hook/{digest}", self._post)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        receiver = await self._receiver(request.path)
        if receiver is None:
            HOOKS.labels("", "404").inc()
            return web.Response(status=404)
        status, text = await self._answer(request, receiver)
        HOOKS.labels(receiver.spec.type, str(status)).inc()
        return web.Response(status=status, text=text)

    async def _receiver(self, path: str) -> Receiver | None:
        """Return the Receiver whose token matches the path, else any with it in its status."""
        found = self._find(path)
        if len(found) > 1:
            for each in found:
                with contextlib.suppress(RefusedError):
                    await self._secret(each, path)
                    return each
        return found[0] if found else None

    async def _answer(self, request: web.Request, receiver: Receiver) -> tuple[int, str]:
        name = f"{receiver.metadata.namespace}/{receiver.metadata.name}"
        try:
            _require_ready(receiver)
            async with self._bodies.reading(request) as body:
                hook = await self._hook(request, receiver, body)
                # Without a turn, because it may send requests to an issuer that a tenant chose.
                checked = await senders.SENDERS[receiver.spec.type](hook, self._tokens)
                async with self._turns.turn(receiver.metadata.namespace):
                    problems = await self._act(hook, checked)
        except (RefusedError, BodyError) as exc:
            logger.info("hook refused", extra={"receiver": name, "why": str(exc)})
            return exc.status, f"{exc}\n"
        except BusyError as exc:
            return 503, f"{exc}\n"
        if problems:
            logger.error("hook not carried out", extra={"receiver": name, "problems": problems})
            return 500, f"{len(problems)} of the objects could not be reconciled\n"
        return 200, ""

    async def _hook(self, request: web.Request, receiver: Receiver, body: bytes) -> Hook:
        secret = await self._secret(receiver, request.path)
        return Hook(receiver=receiver, headers=request.headers, body=body, secret=secret)

    async def _secret(self, receiver: Receiver, path: str) -> Mapping[str, bytes]:
        """Return the content of the Receiver's Secret, if its token matches the path."""
        meta, ref = receiver.metadata, receiver.spec.secret_ref
        secret: Mapping[str, bytes] = {}
        try:
            if ref:
                secret = await self._secrets.read(meta.namespace, ref.name, reason="TokenNotFound")
        except (PenstockError, ApiError) as exc:
            raise RefusedError("the token of the Receiver cannot be read", status=503) from exc
        # The path is of a token that may have been replaced since it was written.
        own = senders.path(secret.get("token", b"").strip(), meta.name, meta.namespace)
        if not hmac.compare_digest(own, path):
            raise RefusedError("the path is of an older token", status=404)
        return secret

    async def _act(self, hook: Hook, checked: Checked) -> list[str]:
        """Request the reconciliations; return the problems."""
        meta = hook.receiver.metadata
        key = ObjectKey(meta.namespace, meta.name)
        if self._replays.seen(key, checked.once):
            raise RefusedError("this delivery was acted upon before", status=409)
        noted = checked.once if checked.counts else ""
        self._replays.note(key, noted)
        done = False
        try:
            refs, problems = await self._resources.of(hook.receiver, _request(hook))
            limit = asyncio.Semaphore(_AT_ONCE_WRITES)

            async def ask(ref: ObjectRef) -> str:
                async with limit:
                    return await self._ask(ref)

            found = await asyncio.gather(*(ask(ref) for ref in refs))
            problems += [problem for problem in found if problem]
            done = not problems
        finally:
            if not done:
                self._replays.forget(key, noted)
        return problems

    async def _ask(self, ref: ObjectRef) -> str:
        try:
            await self._requests.request(ref)
        except NotFoundError:
            return f"{ref} does not exist"
        except ApiError as exc:
            return f"{ref}: {exc}"
        return ""


def _require_ready(receiver: Receiver) -> None:
    if receiver.spec.suspend:
        raise RefusedError("the Receiver is suspended", status=503)
    rows = {row.type: row.status for row in receiver.status.conditions}
    if rows.get("Ready") != "True" or receiver.metadata.deletion_timestamp:
        raise RefusedError("the Receiver is not ready", status=503)


def _request(hook: Hook) -> Json | None:
    """Return the JSON of a request for expressions; None without expressions or JSON."""
    spec = hook.receiver.spec
    if not (spec.resource_filter or any(each.filter for each in spec.resources)):
        return None
    if len(hook.body) > _FILTERED:
        raise RefusedError(f"expressions take bodies of {_FILTERED} bytes at most", status=413)
    try:
        return hook.json()
    except RefusedError:
        return None
