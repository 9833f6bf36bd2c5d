"""Decrypting with keys and key services: work is tried, and tried again with what it lacked.

The work itself is pure and runs in a thread (``KeyRing``). Anyone who wrote the document wrote whom
to ask, so each document has bounds:

1. The keys at hand come first, those that only the engine can use among them. A service is asked
   only if they do not suffice, and of each key group only until one recipient opened it.
2. At most ``MAX_QUESTIONS`` questions, over all documents inside the document, and ``SECONDS``.
3. What is kept belongs to the credentials that it was opened with.

Questions about one document are asked one after the other; ``each`` works on a few at a time.
"""

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import prometheus_client as prom

from toolkit.decrypt.engine import EngineKeys, Opened
from toolkit.decrypt.errors import DecryptionError, UnreachableError
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.keys import Recipient, Refusal, UnaskedError
from toolkit.decrypt.kms import SERVICES
from toolkit.decrypt.kms.opened import OpenedKeys
from toolkit.decrypt.kms.ways import Access
from toolkit.remote.cloud.cloud import Cloud
from toolkit.skipped import Skipped

MAX_QUESTIONS: Final = 16
SECONDS: Final = 8.0
"""Less than the ten that an API server waits for the webhook."""
AT_ONCE: Final = 8
"""Documents of one build."""

QUESTIONS: Final = prom.Counter(
    "penstock_key_service_questions",
    "Questions to key services, and whether they opened, refused or did not answer.",
    ("service", "outcome"),
)

T = TypeVar("T")
Work = Callable[[KeyRing], T]


class KeyServices:
    """Calls key services, with credentials from ``cloud``, and caches their data keys for a while.

    ``engine`` decrypts what it can with keys in the request; its results are not cached.
    ``seconds`` is the time for all requests about one document.
    """

    def __init__(
        self,
        cloud: Cloud,
        *,
        engine: EngineKeys,
        opened: OpenedKeys | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._services = cloud.services
        self._engine = engine
        self._opened = opened or OpenedKeys()
        self._seconds = seconds

    async def open(
        self,
        work: Work[T],
        ring: KeyRing,
        access: Callable[[], Awaitable[Access]],
        *,
        flow: str,
    ) -> T:
        """Return the result of ``work``, which runs in a thread, perhaps several times.

        ``access`` is called before the first request. ``flow`` is that of ``WorkerPool.call``.

        Raises:
            DecryptionError: the error of ``work`` when all answers are known.
            PenstockError: the error of ``access``.
        """
        ring = ring.asking(SERVICES)
        budget = _Budget(
            left=MAX_QUESTIONS, until=asyncio.get_running_loop().time() + self._seconds
        )
        while True:
            try:
                # 1. Try with the keys and answers so far.
                return await asyncio.to_thread(work, ring)
            except UnaskedError as lacking:
                wanted = lacking
            near = [item for group in wanted.groups for item in group if ring.left.get(item.kind)]
            if near:
                found = await self._near(ring, near, budget, flow)
                ring = ring.told(found.answers, found.skipped)
            else:
                ring = ring.told(await self._gather(wanted, await access(), budget))

    async def skipped(self, ring: KeyRing, *, flow: str) -> tuple[Skipped, ...]:
        """Return which keys of a ring cannot be used, also those that only the engine reads."""
        found = await self._engine.open(ring.left, (), flow=flow)
        return (*ring.skipped, *found.skipped)

    async def each(
        self,
        works: Sequence[Work[T]],
        ring: KeyRing,
        access: Callable[[], Awaitable[Access]],
        *,
        flow: str,
    ) -> list[T]:
        """Return the results of several documents' works, in their order."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(work: Work[T]) -> T:
            async with slots:
                return await self.open(work, ring, access, flow=flow)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(work)) for work in works]
        except ExceptionGroup as several:
            raise several.exceptions[0] from several.exceptions[0].__cause__
        return [task.result() for task in tasks]

    async def _near(
        self, ring: KeyRing, recipients: Sequence[Recipient], budget: "_Budget", flow: str
    ) -> Opened:
        try:
            async with asyncio.timeout_at(budget.until):
                return await self._engine.open(ring.left, recipients, flow=flow)
        except TimeoutError:
            message = f"the keys were not tried within {self._seconds:g} seconds"
            refusal = Refusal(message=message, passing=True)
            return Opened(answers=dict.fromkeys(recipients, refusal))

    async def _gather(
        self, wanted: UnaskedError, access: Access, budget: "_Budget"
    ) -> dict[Recipient, bytes | Refusal]:
        """Ask of each group until one recipient opens it, until enough groups are open."""
        answers: dict[Recipient, bytes | Refusal] = {}
        opened = 0
        for recipients in wanted.groups:
            for recipient in recipients:
                answers[recipient] = await self._answer(recipient, access, budget)
                if isinstance(answers[recipient], bytes):
                    opened += 1
                    break
            if opened >= wanted.needed:
                break
        return answers

    async def _answer(
        self, recipient: Recipient, access: Access, budget: "_Budget"
    ) -> bytes | Refusal:
        try:
            async with asyncio.timeout_at(budget.until):
                return await self._ask(recipient, access, budget)
        except UnreachableError as error:
            return Refusal(message=str(error), passing=True)
        except DecryptionError as error:
            return Refusal(message=str(error))
        except TimeoutError:
            message = f"{recipient.shown} did not respond within {self._seconds:g} seconds"
            return Refusal(message=message, passing=True)

    async def _ask(self, recipient: Recipient, access: Access, budget: "_Budget") -> bytes:
        service = SERVICES[recipient.kind]
        ways = service.ways(recipient, access, self._services)
        if not ways:
            account = (
                ", or name an account in spec.decryption.serviceAccountName"
                if service.accounts
                else ""
            )
            raise DecryptionError(
                f"the data key is encrypted for {recipient.shown}, and there are no credentials "
                f"for it: add the entry '{service.entry}' to the Secret{account}"
            )
        digest = hashlib.sha256(repr(recipient).encode()).digest()
        refused: DecryptionError | None = None
        for way in ways:
            # 2. The author of the document decides neither how often nor how long.
            ask = functools.partial(budget.spend, recipient.kind, way.ask)
            try:
                # 3. Kept by recipient and credentials.
                return await self._opened.get((digest, way.key), ask)
            except DecryptionError as error:
                refused = refused or error
        assert refused is not None  # noqa: S101 - there was a way
        raise refused


@dataclass(slots=True, kw_only=True)
class _Budget:
    """The remaining requests and time for one document."""

    left: int
    until: float

    async def spend(self, kind: str, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        """Ask, unless there were enough questions."""
        if self.left <= 0:
            raise DecryptionError(
                f"more than {MAX_QUESTIONS} requests to key services are needed: put fewer"
                " recipients into the document, or the available one first"
            )
        self.left -= 1
        outcome = "unanswered"
        try:
            key = await ask()
            outcome = "opened"
        except UnreachableError:
            raise
        except DecryptionError:
            outcome = "refused"
            raise
        finally:
            QUESTIONS.labels(kind, outcome).inc()
        return key
