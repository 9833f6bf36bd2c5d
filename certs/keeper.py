"""Keep one set of certificates: make them, share them, renew them, serve them, have them trusted.

Every replica runs this. They meet in one Secret: the one that writes a step of the rotation first
has made it (``rotation``, ``secret``), and all follow it by watch. If cert-manager keeps a Secret
``<name>-tls``, that is served and trusted instead, and ours rests.

cert-manager changes authority and certificate at once, and so does anyone who damages our Secret.
So that no client meets a certificate that it does not trust yet, both authorities are injected
first, and the new certificate is served when every target that trusts the old authority has held
both for a moment.
"""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable
from typing import Final

import msgspec
import prometheus_client

from certs import authority, rotation, secret
from certs.authority import CertificateError, Pair
from certs.injection import Injector
from certs.rotation import Situation, State, Terms
from certs.serving import Serving
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.rbac import Rule
from toolkit.objects import Json, ObjectKey

logger = logging.getLogger(__name__)

EXPIRES: Final = prometheus_client.Gauge(
    "penstock_certificate_expiration_timestamp_seconds",
    "When the served certificate ends, as Unix time.",
    ("name",),
)
_LOOK_AGAIN: Final = 600.0
"""Seconds; the watch tells of changes, this is for clocks that were set."""
_RETRY: Final = 1.0
_SETTLING: Final = 10.0
_MAX_RETRY: Final = 30.0


def permissions(name: str) -> tuple[Rule, ...]:
    """Return what keeping the certificates ``name`` takes in the own namespace."""
    return (
        # A name cannot narrow what is created.
        Rule(groups=("",), resources=("secrets",), verbs=("create",)),
        Rule(
            groups=("",),
            resources=("secrets",),
            verbs=("get", "list", "watch", "update"),
            names=(_own(name),),
        ),
        Rule(
            groups=("",),
            resources=("secrets",),
            verbs=("get", "list", "watch"),
            names=(_foreign(name),),
        ),
    )


class Keeper:
    """Keeps the certificates ``name`` for a server that answers under ``hosts``."""

    def __init__(  # noqa: PLR0913 - what it keeps, for whom, and how long
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        hosts: tuple[str, ...],
        injector: Injector,
        serving: Serving,
        terms: Terms,
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._client = client
        self._name = name
        self._hosts = hosts
        self._injector = injector
        self._serving = serving
        self._terms = terms
        self._clock = clock
        self._key = ObjectKey(namespace, _own(name))
        self._foreign_key = ObjectKey(namespace, _foreign(name))
        self._ours = self._follow(self._key)
        self._theirs = self._follow(self._foreign_key)
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()
        self._served: Pair | None = None
        self._settling = min(terms.overlap.total_seconds(), _SETTLING)
        self._held = (b"", 0.0)
        self._bundle = self._before = b""
        self._unannounced = False
        injector.subscribe(self._wake.set)

    @property
    def bundle(self) -> bytes:
        """Return the authorities that clients must trust now."""
        return authority.joined(self._bundle, self._before)

    async def wait_ready(self) -> None:
        """Wait until there is a certificate to serve."""
        await self._ready.wait()

    async def run(self) -> None:
        """Keep them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._ours, self._theirs):
                informer.subscribe(self._changed)
                group.create_task(informer.run())
            for informer in (self._ours, self._theirs):
                await informer.wait_synced()
            await self._keep()

    async def _keep(self) -> None:
        delay = _RETRY
        while True:
            self._wake.clear()
            try:
                pause = await self._pass()
                delay = _RETRY
            except (ApiError, CertificateError) as exc:
                logger.error("certificates not kept", extra={"error": str(exc)})  # noqa: TRY400 - one line
                pause, delay = delay, min(2 * delay, _MAX_RETRY)
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _pass(self) -> float:
        """Do what is due and return in how many seconds to look again."""
        theirs = self._theirs.get(self._foreign_key)
        if secret.is_foreign(theirs) and theirs is not None:
            pair, bundle = secret.foreign(theirs)
            self._offer(pair, bundle, signer=bundle)
            return _LOOK_AGAIN if pair == self._served else _RETRY
        state = self._state(self._ours.get(self._key))
        now = self._situation(state)
        following = rotation.step(state, now, self._terms, name=f"penstock-{self._name}")
        if following is not None:
            return await self._write(following)
        if state is None:
            raise AssertionError("where there is no state, a step is due")
        self._offer(state.leaf, state.bundle, signer=state.authority.certificate)
        due = rotation.due(state, self._terms, now=now.now).total_seconds()
        return min(due, _LOOK_AGAIN if state.leaf == self._served else _RETRY)

    async def _write(self, state: State) -> float:
        """Write a step; what comes of it is read from the cluster in either case."""
        before = self._ours.get(self._key)
        won = await secret.write(self._client, secret.encode(state, self._key, before))
        logger.info(
            "certificates written" if won else "another replica wrote the certificates",
            extra={"secret": str(self._key)},
        )
        # The watch brings what was written, by whomever.
        return _RETRY

    def _state(self, stored: Json | None) -> State | None:
        if stored is None:
            return None
        try:
            return secret.decode(stored)
        except CertificateError as exc:
            logger.error("certificates made anew", extra={"error": str(exc)})  # noqa: TRY400 - one line
            return None

    def _situation(self, state: State | None) -> Situation:
        return Situation(
            now=self._clock(),
            hosts=self._hosts,
            trusted=state is not None
            and state.next is not None
            and self._injector.held(state.next.certificate, instead=state.authority.certificate),
            asked=secret.asked(self._ours.get(self._key)),
        )

    def _offer(self, leaf: Pair, bundle: bytes, *, signer: bytes) -> None:
        """Have ``bundle`` trusted, and serve ``leaf`` as soon as its signer is.

        What was trusted before a signer whom nobody announced stays so, for the replicas that
        still serve it.
        """
        if self._served and not authority.holds(self.bundle, signer):
            self._before, self._unannounced = self._bundle, True
        self._bundle = bundle
        self._injector.inject(self.bundle)
        if leaf == self._served or (self._unannounced and not self._settled(signer)):
            return
        self._serving.load(leaf)
        self._served, self._unannounced = leaf, False
        ends = authority.facts(leaf.certificate).ends
        EXPIRES.labels(self._name).set(ends.timestamp())
        logger.info("certificate loaded", extra={"ends": ends.isoformat()})
        self._ready.set()

    def _settled(self, signer: bytes) -> bool:
        """Tell whether targets have held it for a while: API servers read them from caches."""
        now = asyncio.get_running_loop().time()
        if not self._injector.held(signer, instead=self._before):
            self._held = (b"", now)
        elif self._held[0] != signer:
            self._held = (signer, now)
        return self._held[0] == signer and now >= self._held[1] + self._settling

    def _follow(self, key: ObjectKey) -> Informer[Json]:
        return Informer(
            self._client,
            secret.SECRET,
            decode=msgspec.json.decode,
            namespace=key.namespace,
            field_selector=f"metadata.name={key.name}",
        )

    def _changed(self, _: Change[Json]) -> None:
        self._wake.set()


def _own(name: str) -> str:
    return f"{name}-certificates"


def _foreign(name: str) -> str:
    return f"{name}-tls"
