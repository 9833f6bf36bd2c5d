"""The endpoint of hooks: ``POST /hook/<digest>``, the only port that senders need to reach.

The statuses are those of Flux: 404 for a path of no Receiver, 503 for one that is suspended or not
ready, 400 for a request that its check refuses, 500 if a request of a reconciliation failed, and
200 otherwise. Beyond Flux: 413 for a body that is too large, 408 for one that takes too long, and
409 for a delivery that was carried out before.
"""

import asyncio
import hmac
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from toolkit.errors import PenstockError, TransientError
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
_ADMITTED: Final = 192
"""Requests whose body has come, of the connections that the port has."""
_MOST_ALIKE: Final = 64
"""Receivers with one path. At most so many namespaces have names that end like one text."""
_SECONDS: Final = 30.0
"""Time limit for acting upon a request."""
_SHOWN: Final = 10
_FILTERED: Final = 1 << 20
"""Bytes of a body that expressions can read: with this size, each object takes 75 ms (measured)."""


class Paths:
    """The Receivers by path.

    It is usually one. Several may have the same path, because it is made of token, name and
    namespace without a separator, as in Flux: without a token, ``hook`` in ``team-c`` has the path
    of ``hookt`` in ``eam-c``.
    """

    def __init__(self, informer: Informer[Receiver]) -> None:
        self._found: dict[str, dict[ObjectKey, None]] = {}
        self._informer = informer
        informer.subscribe(self._changed)

    def find(self, path: str) -> Sequence[Receiver]:
        """Return the Receivers whose status has a path, one of each namespace first.

        With tokens of different lengths, one namespace can have hundreds of Receivers with the path
        of another's.
        """
        found = (self._informer.get(key) for key in self._found.get(path, ()))
        before: Counter[str] = Counter()
        ranked: list[tuple[int, Receiver]] = []
        for each in filter(None, found):
            ranked.append((before[each.metadata.namespace], each))
            before[each.metadata.namespace] += 1
        return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]

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
        self._admitted = Turns(places=_ADMITTED)
        self._running: set[asyncio.Task[_Answer]] = set()

    def application(self) -> web.Application:
        """Return the server."""
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_post("/hook/{digest}", self._post)
        app.on_cleanup.append(self._stop)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        found = self._find(request.path)[:_MOST_ALIKE]
        if not found:
            HOOKS.labels("", "404").inc()
            return web.Response(status=404)
        answer = await self._answer(request, found)
        HOOKS.labels(answer.receiver.spec.type, str(answer.status)).inc()
        if answer.refused:
            logger.info(
                "hook refused", extra={"receiver": _name(answer.receiver), "why": answer.text}
            )
        return web.Response(status=answer.status, text=answer.text and f"{answer.text}\n")

    async def _answer(self, request: web.Request, found: Sequence[Receiver]) -> "_Answer":
        """Read the body once, for all Receivers with this path."""
        ready = [each for each in found if not _unready(each)]
        if not ready:
            return _Answer(found[0], 503, _unready(found[0]), refused=True)
        one = ready[0].metadata.namespace if len(ready) == 1 else request.path
        try:
            async with self._bodies.reading(request, flow=one) as body:
                return await self._first(
                    [self._delivered(request, receiver, body) for receiver in ready]
                )
        except BodyError as exc:
            return _Answer(ready[0], exc.status, str(exc), refused=True)

    async def _first(self, works: Sequence[Coroutine[Any, Any, "_Answer"]]) -> "_Answer":
        """Deliver to each Receiver, and return the first success, else the best answer.

        The path of a Receiver without a token is known, and another one may have it: neither may
        take the other's deliveries, or delay them.
        """
        if len(works) == 1:
            return await works[0]
        tasks = {asyncio.create_task(work) for work in works}
        self._running |= tasks
        for task in tasks:
            task.add_done_callback(self._running.discard)
        answers: list[_Answer] = []
        pending = tasks
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            answers += [task.result() for task in done]
            if any(each.status == _DONE for each in answers):
                break
        return min(answers, key=lambda each: _ORDER.index(each.status))

    async def _stop(self, _: web.Application) -> None:
        for task in tuple(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _delivered(self, request: web.Request, receiver: Receiver, body: bytes) -> "_Answer":
        try:
            # A namespace whose issuers or objects answer slowly does not hold every connection.
            async with self._admitted.turn(receiver.metadata.namespace):
                hook = await self._hook(request, receiver, body)
                # Without a turn, because it may send requests to an issuer that a tenant chose.
                checked = await senders.SENDERS[receiver.spec.type](hook, self._tokens)
                async with (
                    asyncio.timeout(_SECONDS),
                    self._turns.turn(receiver.metadata.namespace),
                ):
                    problems = await self._act(hook, checked, request.path)
        except RefusedError as exc:
            return _Answer(receiver, exc.status, str(exc), refused=True)
        except (BusyError, TimeoutError) as exc:
            return _Answer(receiver, 503, str(exc) or "it takes too long; try again later")
        except TransientError as exc:
            # such as a worker for expressions that ended
            logger.warning(
                "hook not judged", extra={"receiver": _name(receiver), "error": str(exc)}
            )
            return _Answer(receiver, 503, "it could not be judged; try again later")
        if problems:
            shown = problems[:_SHOWN]
            logger.error(
                "hook not carried out",
                extra={"receiver": _name(receiver), "problems": shown, "number": len(problems)},
            )
            return _Answer(receiver, 500, f"{len(problems)} of the objects could not be reconciled")
        return _Answer(receiver, _DONE, "")

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

    async def _act(self, hook: Hook, checked: Checked, path: str) -> list[str]:
        """Request the reconciliations, while the Receiver is as it was; return the problems."""
        meta = hook.receiver.metadata
        key = ObjectKey(meta.namespace, meta.name)
        if self._replays.seen(key, checked.once):
            raise RefusedError("this delivery was acted upon before", status=409)
        noted = checked.keys
        self._replays.note(key, noted)

        def require_current() -> None:
            if not any(each is hook.receiver or _same(each, hook) for each in self._find(path)):
                raise RefusedError("the Receiver was changed or deleted meanwhile", status=503)

        done = False
        try:
            refs, problems = await self._resources.of(
                hook.receiver, _request(hook), require_current
            )
            limit = asyncio.Semaphore(_AT_ONCE_WRITES)

            async def ask(ref: ObjectRef) -> str:
                async with limit:
                    require_current()
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


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of one Receiver; ``refused`` if its check did not let the request pass."""

    receiver: Receiver
    status: int
    text: str
    refused: bool = False


_DONE: Final = 200
_ORDER: Final = (_DONE, 409, 500, 413, 408, 400, 503, 404)
"""Statuses, from the one that tells most."""


def _name(receiver: Receiver) -> str:
    return f"{receiver.metadata.namespace}/{receiver.metadata.name}"


def _same(found: Receiver, hook: Hook) -> bool:
    new, old = found.metadata, hook.receiver.metadata
    return (new.namespace, new.name, new.uid) == (old.namespace, old.name, old.uid) and (
        found.spec == hook.receiver.spec
    )


def _unready(receiver: Receiver) -> str:
    """Return why a Receiver cannot be used; empty if it can."""
    if receiver.spec.suspend:
        return "the Receiver is suspended"
    rows = {row.type: row.status for row in receiver.status.conditions}
    ready = rows.get("Ready") == "True" and not receiver.metadata.deletion_timestamp
    return "" if ready else "the Receiver is not ready"


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
