"""Services shared by plugins: caches of the cluster, clients, proofs, and permissions.

They are created once for the process and closed with it. All plugins that use the same kind share a
cache, which is filled before the webhooks are registered, and kept current by a watch.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

from toolkit.artifact import scratch
from toolkit.decrypt import engine as decrypting
from toolkit.decrypt.engine import EngineKeys
from toolkit.expressions import evaluator
from toolkit.expressions.evaluator import Evaluator
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.kube.later import Later
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.secrets import Secrets
from toolkit.kube.undecoded import Undecoded
from toolkit.native import calls, cores
from toolkit.native.pool import WorkerPool
from toolkit.objects import GroupVersionKind, ObjectKey
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Http
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.notation.revocation import Responders
from toolkit.verify.verifications import Means, Verifications
from webhooks.authorizer import Authorizer, SubjectAccessReviews

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Cache(Protocol[T_co]):
    """A cache of one kind (``toolkit.kube.informer.Informer``)."""

    @property
    def synced(self) -> bool:
        """Tell whether the cache has been complete once."""

    async def wait_synced(self) -> None:
        """Wait until the cache is complete."""

    def get(self, key: ObjectKey) -> T_co | None:
        """Return the object as last seen."""

    def items(self) -> Mapping[ObjectKey, T_co]:
        """Return a live, read-only view."""

    def subscribe(self, handler: Callable[[Change[T_co]], None]) -> None:
        """Call ``handler`` for every change, and at once for all that is here."""


class Watch(Protocol):
    """Makes caches."""

    def __call__(
        self,
        gvk: GroupVersionKind,
        *,
        decode: Callable[[bytes], T],
        stand_in: Callable[[Undecoded], T] | None = None,
        metadata_only: bool = False,
        after: GroupVersionKind | None = None,
    ) -> Cache[T]:
        """Return the cache of these objects; the same for the same arguments.

        ``stand_in`` returns what stands in for an object that does not decode (``Informer``).

        It may be filled only when there is an object of the kind ``after`` (``Later``), which the
        caller must watch as well.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services given to ``Row.make``.

    ``client`` acts as the process itself: never use it for an action that the user may not do.
    Reviews begin only when every cache requested in ``make`` is complete.
    """

    client: Client
    options: Options
    namespace: str
    """The namespace of Penstock."""
    watch: Watch
    authorize: Authorizer
    secrets: Secrets
    http: Http
    cloud: Cloud
    keys: Callable[[], EngineKeys]
    """Opens data keys, in workers that start with the first of them; to be called from ``make``."""
    engine: Callable[[], WorkerPool]
    """Returns the engine's workers, which start with their first work; to be called from
    ``make``."""
    evaluates: Callable[[], Evaluator]
    """Compiles CEL expressions, in workers that start with the first; to be called from ``make``.
    """
    verifications: Callable[[], Verifications]
    """Verifies with them; to be called from ``make``."""
    run: Callable[[Callable[[], Awaitable[None]]], None]
    """Run something until the process ends; to be called from ``make``."""
    proven: bool = False
    """Whether callers prove that they are API servers. If not, an answer may contain only the
    verdict, and facts from the request or from policies.
    """


class Caches:
    """The caches of the process: one for the same arguments."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[object, ...], Informer[Any] | Later[Any]] = {}

    def watching(self, asked: list[Cache[Any]]) -> Watch:
        """Return a ``Watch`` that adds each requested cache to ``asked``."""

        def watch(
            gvk: GroupVersionKind,
            *,
            decode: Callable[[bytes], T],
            stand_in: Callable[[Undecoded], T] | None = None,
            metadata_only: bool = False,
            after: GroupVersionKind | None = None,
        ) -> Cache[T]:
            key = (gvk, decode, stand_in, metadata_only, after)
            if key not in self._known:
                informer = Informer(
                    self._client,
                    gvk,
                    decode=decode,
                    stand_in=stand_in,
                    metadata_only=metadata_only,
                )
                self._known[key] = _after(self._of(after), informer) if after else informer
            asked.append(self._known[key])
            return self._known[key]

        return watch

    def _of(self, gvk: GroupVersionKind) -> Informer[Any]:
        """Return the informer of all objects of a kind.

        Raises:
            LookupError: no plugin has requested it.
        """
        for each in self._known.values():
            if isinstance(each, Informer) and each.gvk == gvk:
                return each
        raise LookupError(f"{gvk} is not watched")

    @property
    def informers(self) -> tuple[Informer[Any] | Later[Any], ...]:
        """Return the informers to run."""
        return tuple(self._known.values())


def _after(first: Informer[Any], informer: Informer[T]) -> Later[T]:
    """Return the cache of an informer that runs from the first object on that ``first`` shows."""
    later = Later(informer)

    def saw(change: Change[Any]) -> None:
        if change.new is not None:
            later.need()

    first.subscribe(saw)
    return later


async def start(manager: Manager, options: Options) -> Services:
    """Make the services; they are closed when the manager ends."""
    until_end = manager.until_end
    http = await until_end.enter_async_context(Http())
    directory = until_end.enter_context(scratch.claimed())
    pool = functools.cache(functools.partial(_engine, manager))
    credentials = TokenCache(
        size=options.token_cache_max_size,
        longest=timedelta(seconds=options.token_cache_max_duration),
    )
    return Services(
        client=manager.client,
        options=options,
        namespace=manager.namespace,
        watch=Caches(manager.client).watching([]),
        authorize=SubjectAccessReviews(manager.client),
        secrets=Secrets(manager.client),
        http=http,
        cloud=Cloud(http, cache=credentials),
        keys=functools.cache(functools.partial(_keys, manager)),
        engine=pool,
        evaluates=functools.cache(functools.partial(_evaluates, manager)),
        verifications=functools.cache(
            functools.partial(_verifications, manager, http, directory, pool)
        ),
        run=manager.add_service,
    )


def _keys(manager: Manager) -> EngineKeys:
    pool = decrypting.start()
    manager.until_end.push_async_callback(pool.close)
    return EngineKeys(pool)


def _engine(manager: Manager) -> WorkerPool:
    pool = calls.start(size=cores.available())
    manager.until_end.push_async_callback(pool.close)
    return pool


def _evaluates(manager: Manager) -> Evaluator:
    made = evaluator.start()
    manager.until_end.push_async_callback(made.close)
    return made


def _verifications(
    manager: Manager, http: Http, directory: Path, engine: Callable[[], WorkerPool]
) -> Verifications:
    responders = Responders(http, allow_private=manager.options.allow_private_revocation_servers)
    root = PublicRoot(cache=directory, offline=manager.options.sigstore_offline)
    return Verifications(Means(public_root=root, pool=engine(), revocations=responders))
