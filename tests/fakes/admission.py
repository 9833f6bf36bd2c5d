"""Admission without an API server: make a request, give it to a plugin, look at the answer.

::

    plugin = references.make(admission.services(objects=[grant]))
    answer = await admission.admitted(plugin, admission.request(kustomization))
    denial = await admission.denied(plugin, admission.request(kustomization, user="mallory"))
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from toolkit.decrypt import engine
from toolkit.decrypt.engine import EngineKeys
from toolkit.errors import PenstockError
from toolkit.expressions import evaluator
from toolkit.expressions.evaluator import Evaluator
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.kube.informer import Change
from toolkit.kube.options import Options
from toolkit.kube.secrets import Secrets
from toolkit.kube.undecoded import Undecoded
from toolkit.native import calls
from toolkit.native.pool import WorkerPool
from toolkit.objects import GroupVersionKind, Json, ObjectKey, gvk_of, key_of
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Http
from toolkit.verify.verifications import Verifications
from webhooks.authorizer import Authorizer
from webhooks.plugin import Answer, Plugin
from webhooks.request import Operation, Request, User
from webhooks.services import Services

T = TypeVar("T")

NAMESPACE = "penstock-system"

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "apps"},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}
REVIEW: Json = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "ephemeralcontainers",
        "requestKind": {"group": "", "version": "v0", "kind": "Pod"},
        "name": "web",
        "namespace": "apps",
        "operation": "UPDATE",
        "userInfo": {"username": "alice", "groups": ["dev"], "extra": {"k": ["v"]}},
        "object": POD,
        "oldObject": POD,
        "dryRun": True,
        "options": {"kind": "UpdateOptions"},
    },
}


def request(
    obj: Json | None = None,
    *,
    old: Json | None = None,
    operation: Operation | None = None,
    user: str = "alice",
    groups: tuple[str, ...] = ("system:authenticated",),
    extra: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    resource: str = "",
    subresource: str = "",
    asked: GroupVersionKind | None = None,
    dry_run: bool = False,
    options: Json | None = None,
    seconds: float = 10.0,
) -> Request:
    """Make a request: a CREATE of ``obj``, an UPDATE of ``old`` to ``obj``, a DELETE of ``old``.

    ``resource`` is the plural; left out, the kind in lower case and an "s".
    """
    subject = obj if obj is not None else old
    if subject is None:
        raise TypeError("a request is about an object")
    gvk, key = gvk_of(subject), key_of(subject)
    return Request(
        uid="5ad6c2d8-6d6b-4b5c-8c1b-9a6f1a2b3c4d",
        operation=operation or _operation(obj, old),
        gvk=gvk,
        asked=asked or gvk,
        resource=resource or f"{gvk.kind.lower()}s",
        subresource=subresource,
        namespace=key.namespace,
        name=key.name,
        user=User(name=user, groups=groups, extra=extra),
        object=obj,
        old=old,
        dry_run=dry_run,
        options=options or {},
        deadline=_now() + seconds,
    )


async def admitted(plugin: Plugin, asked: Request) -> Answer:
    """Return the plugin's answer; it must not change what it was given."""
    before = copy.deepcopy((asked.object, asked.old))
    answer = await plugin.review(asked)
    assert (asked.object, asked.old) == before, "the plugin changed the request in place"
    return answer


async def judged(plugin: Plugin, asked: Request) -> Answer | PenstockError:
    """Return the plugin's answer, or what it denies the request with."""
    try:
        return await admitted(plugin, asked)
    except PenstockError as exc:
        return exc


async def refusal(plugin: Plugin, asked: Request) -> PenstockError | None:
    """Return what the plugin denies the request with; None if it admits it."""
    found = await judged(plugin, asked)
    return None if isinstance(found, Answer) else found


async def denied(plugin: Plugin, asked: Request) -> PenstockError:
    """Return what the plugin denies the request with; fail if it does not."""
    answer = await judged(plugin, asked)
    if isinstance(answer, Answer):
        raise AssertionError(f"not denied: {answer}")  # noqa: TRY004 - a test's failure
    return answer


class FakeAuthorizer:
    """Allows what it was told: ``allow("alice", "use", "serviceaccounts", "apps", "deployer")``."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, str, str, str, str]] = []
        self._allowed: set[tuple[str, str, str, str, str]] = set()
        self._failure: PenstockError | None = None

    def allow(self, user: str, verb: str, resource: str, namespace: str, name: str = "") -> None:
        """Allow ``resource`` (``plural`` or ``plural/subresource``) to be used so from now on."""
        self._allowed.add((user, verb, resource, namespace, name))

    def fail(self, failure: PenstockError) -> None:
        """Raise this instead of answering."""
        self._failure = failure

    async def allowed(
        self,
        user: User,
        *,
        verb: str,
        group: str,  # noqa: ARG002 - the plural tells
        resource: str,
        namespace: str,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        """Tell whether this was allowed; a rule without a name allows every name."""
        if self._failure:
            raise self._failure
        path = f"{resource}/{subresource}" if subresource else resource
        question = (user.name, verb, path, namespace, name)
        self.questions.append(question)
        return bool({question, (*question[:4], "")} & self._allowed)


class FakeCache(Generic[T]):
    """A cache that holds what it is given; ``put`` and ``remove`` are what a watch would bring."""

    def __init__(
        self, decode: Callable[[bytes], T], stand_in: Callable[[Undecoded], T] | None = None
    ) -> None:
        self._decode = decode
        self._stand_in = stand_in
        self._items: dict[ObjectKey, T] = {}
        self._handlers: list[Callable[[Change[T]], None]] = []

    @property
    def synced(self) -> bool:
        """It is complete from the start."""
        return True

    async def wait_synced(self) -> None:
        """Return at once."""

    def get(self, key: ObjectKey) -> T | None:
        """Return the object."""
        return self._items.get(key)

    def items(self) -> Mapping[ObjectKey, T]:
        """Return a live view."""
        return MappingProxyType(self._items)

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        """Tell of every change from now on, and of all that is here."""
        self._handlers.append(handler)
        for key, item in self._items.items():
            handler(Change("ADDED", key, None, item))

    def put(self, obj: Json) -> None:
        """Add or change an object."""
        key = key_of(obj)
        raw = msgspec.json.encode(obj)
        try:
            new = self._decode(raw)
        except msgspec.ValidationError as exc:
            if self._stand_in is None:
                return
            new = self._stand_in(Undecoded(raw, exc))
        old = self._items.get(key)
        self._items[key] = new
        self._tell(Change("MODIFIED" if old is not None else "ADDED", key, old, new))

    def remove(self, obj: Json) -> None:
        """Delete an object."""
        key = key_of(obj)
        self._tell(Change("DELETED", key, self._items.pop(key), None))

    def _tell(self, change: Change[T]) -> None:
        for handler in self._handlers:
            handler(change)


class FakeCluster:
    """The objects that caches of any kind are filled with."""

    def __init__(self, objects: Iterable[Json] = ()) -> None:
        self._objects = list(objects)
        self._caches: dict[GroupVersionKind, list[FakeCache[Any]]] = {}

    def watch(
        self,
        gvk: GroupVersionKind,
        *,
        decode: Callable[[bytes], T],
        stand_in: Callable[[Undecoded], T] | None = None,
        metadata_only: bool = False,  # noqa: ARG002 - whole objects decode as well
        after: GroupVersionKind | None = None,  # noqa: ARG002 - it may be filled before
    ) -> FakeCache[T]:
        """Return a cache of all objects of the kind."""
        cache = FakeCache(decode, stand_in)
        for obj in self._objects:
            if gvk_of(obj) == gvk:
                cache.put(obj)
        self._caches.setdefault(gvk, []).append(cache)
        return cache

    def put(self, obj: Json) -> None:
        """Add or change an object."""
        self._objects.append(obj)
        for cache in self._caches.get(gvk_of(obj), ()):
            cache.put(obj)

    def remove(self, obj: Json) -> None:
        """Delete an object."""
        self._objects = [each for each in self._objects if each is not obj]
        for cache in self._caches.get(gvk_of(obj), ()):
            cache.remove(obj)


def services(
    objects: Iterable[Json] = (),
    *,
    cluster: FakeCluster | None = None,
    authorize: Authorizer | None = None,
    client: Client | None = None,
    http: Http | None = None,
    options: Options | None = None,
    verifications: Verifications | None = None,
    pool: WorkerPool | None = None,
    proven: bool = True,
) -> Services:
    """Make services over these objects, for callers that prove to be API servers or do not.

    Without a ``client`` (such as ``FakeApiServer.running`` gives) there is no API server.
    """
    nowhere = client or Client.open(ClusterConfig(server="http://127.0.0.1:9"))
    way = http or Http()
    return Services(
        client=nowhere,
        options=options or Options(),
        namespace=NAMESPACE,
        watch=(cluster or FakeCluster(objects)).watch,
        authorize=authorize or FakeAuthorizer(),
        secrets=Secrets(nowhere),
        http=way,
        cloud=Cloud(way, cache=TokenCache()),
        keys=lambda: EngineKeys(engine.start()),
        engine=lambda: pool or calls.start(size=1),
        evaluates=lambda: Evaluator(pool) if pool else evaluator.start(),
        verifications=lambda: _given(verifications),
        run=_forget,
        proven=proven,
    )


def _given(verifications: Verifications | None) -> Verifications:
    if verifications is None:
        raise TypeError("this test gave no verifications")
    return verifications


def _forget(work: Callable[[], Awaitable[None]]) -> None:
    """Leave background work to the tests of it."""


def _operation(obj: Json | None, old: Json | None) -> Operation:
    if obj is None:
        return "DELETE"
    return "CREATE" if old is None else "UPDATE"


def _now() -> float:
    return asyncio.get_running_loop().time()
