"""Access to registries for Pods of a namespace: with their pull Secrets, or their account's.

A registry is contacted as late as possible. With a cached proof, or a recently resolved tag,
neither the registry nor its Secrets are read.

1. The Secrets are those that the Pods name, or else those of their ServiceAccount (Kubernetes adds
   them to Pods in the same way), and then the policy's own. The Pods' Secrets are in their
   namespace, the policy's in Penstock's.
2. A namespace waits for a few registries at a time. A registry that has just failed to answer is
   not contacted again at once, so that other requests of the namespace can proceed.
3. A resolved tag is cached for seconds, for the same namespace with the same Secrets. So are these
   Secrets, because checking an image takes several calls.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from toolkit.errors import TransientError
from toolkit.imagetrust.trust import Trusted
from toolkit.kept import Kept
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.secrets import Secrets
from toolkit.objects import GroupVersionKind, dig
from toolkit.policy.imagereference import ImageReference
from toolkit.policy.images import PullAccess
from toolkit.remote.http.http import AuthError, Endpoint, Http
from toolkit.remote.oci import dockerconfig
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository
from toolkit.remote.oci.registry import Registry, RegistryAuthError, RegistryError, Tokens

TAG_SECONDS: Final = 20.0
"""How long a resolved tag is cached."""
SECRET_SECONDS: Final = 5.0
AT_ONCE: Final = 8
"""Conversations with registries that a namespace may have."""
PAUSE_SECONDS: Final = 5.0
_REASON: Final = "AuthenticationFailed"
_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
_KEPT: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The user of a registry: Pods of a namespace, under a policy, until a deadline of the loop."""

    namespace: str
    pulls: PullAccess
    policy: str
    trusted: Trusted
    deadline: float

    @property
    def key(self) -> tuple[object, ...]:
        """Return the cache key: all inputs on which the answer of a registry may depend."""
        return self.namespace, self.pulls, self.policy, self.trusted.endpoint


class Registries:
    """Opens registries, and caches resolved tags and registries that did not answer."""

    def __init__(self, client: Client, http: Http, *, tokens: Tokens | None = None) -> None:
        self._client = client
        self._secrets = Secrets(client)
        self._http = http
        self._tokens = tokens or Tokens()
        self._digests: Kept[str] = Kept(seconds=TAG_SECONDS)
        self._pulls: Kept[tuple[Mapping[str, bytes], ...]] = Kept(
            seconds=SECRET_SECONDS, capacity=_KEPT
        )
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._silent: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def digest(self, visitor: Visitor, reference: ImageReference) -> str:
        """Return the digest that a tag leads to now, or did a moment ago (rule 3).

        Raises:
            TransientError: the registry, or a Secret to sign in with, cannot be read.
        """

        async def find() -> str:
            found = await self.store(visitor).resolve(reference.repository, reference.tag)
            return found.digest

        return await self._digests.get((visitor.key, str(reference)), find)

    def store(self, visitor: Visitor) -> "Store":
        """Return the registries for a verifier to read."""
        return Store(self, visitor)

    @asynccontextmanager
    async def asking(self, visitor: Visitor, repository: Repository) -> AsyncIterator[Registry]:
        """Give a registry for one call (rule 2).

        Raises:
            TransientError: a Secret to sign in with cannot be read, or the registry was silent.
        """
        place = (visitor.namespace, repository.registry)
        self._require_answering(place)
        turn = self._turns.get(visitor.namespace)
        if turn is None:
            turn = self._turns[visitor.namespace] = asyncio.Semaphore(AT_ONCE)
        async with turn:
            self._require_answering(place)
            endpoint = await self.endpoint(visitor, repository)
            left = max(visitor.deadline - _now(), _LEAST)
            try:
                yield Registry(self._http, endpoint, tokens=self._tokens, timeout=left)
            except RegistryError as exc:
                if _timed_out(exc):
                    self._note_silence(place)
                raise

    async def endpoint(self, visitor: Visitor, repository: Repository) -> Endpoint:
        """Return the connection settings and the login of a registry (rule 1)."""
        found = await self._pulls.get(
            (visitor.namespace, visitor.pulls), lambda: self._pull_secrets(visitor)
        )
        if visitor.trusted.login is not None:
            found = (*found, visitor.trusted.login)
        try:
            login = dockerconfig.login(filter(_holds_logins, found), repository)
        except AuthError as exc:
            raise RegistryAuthError(f"cannot sign in at '{repository.registry}': {exc}") from exc
        return login.on(visitor.trusted.endpoint) if login else visitor.trusted.endpoint

    async def _pull_secrets(self, visitor: Visitor) -> tuple[Mapping[str, bytes], ...]:
        names = visitor.pulls.secrets or await self._of_account(visitor)
        return tuple([await self._secret(visitor.namespace, name) for name in names])

    async def _of_account(self, visitor: Visitor) -> tuple[str, ...]:
        try:
            account = await self._client.get(
                _ACCOUNT, visitor.pulls.service_account, visitor.namespace
            )
        except NotFoundError:
            return ()  # Then there are no Pods either.
        entries = dig(account, "imagePullSecrets", default=[])
        return tuple(str(entry["name"]) for entry in entries if entry.get("name"))

    async def _secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return a pull Secret; a missing one counts as empty, as for the kubelet."""
        try:
            return await self._secrets.read(namespace, name, reason=_REASON)
        except TransientError as exc:
            if isinstance(exc.__cause__, NotFoundError):
                return {}
            raise

    def _note_silence(self, place: tuple[str, str]) -> None:
        self._silent[place] = _now() + PAUSE_SECONDS
        self._silent.move_to_end(place)
        while len(self._silent) > _KEPT:
            self._silent.popitem(last=False)

    def _require_answering(self, place: tuple[str, str]) -> None:
        if self._silent.get(place, 0.0) > _now():
            raise RegistryError(
                f"'{place[1]}' did not respond in time a moment ago; it is asked again in"
                f" {PAUSE_SECONDS:.0f} seconds"
            )


class Store:
    """``toolkit.verify.subject.SignatureStore`` that opens its registry with the first call."""

    def __init__(self, registries: Registries, visitor: Visitor) -> None:
        self._registries = registries
        self._visitor = visitor

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:
        """Return the target of a tag."""
        async with self._registries.asking(self._visitor, repository) as registry:
            return await registry.resolve(repository, reference)

    async def manifest(self, repository: Repository, digest: str) -> Manifest:
        """Return the manifest of this digest."""
        async with self._registries.asking(self._visitor, repository) as registry:
            return await registry.manifest(repository, digest)

    async def referrers(
        self, repository: Repository, digest: str, *, artifact_type: str = ""
    ) -> tuple[Descriptor, ...]:
        """Return the referrers of the digest."""
        async with self._registries.asking(self._visitor, repository) as registry:
            return await registry.referrers(repository, digest, artifact_type=artifact_type)

    async def read_blob(
        self, repository: Repository, descriptor: Descriptor, *, limit: int
    ) -> bytes:
        """Return a blob of at most ``limit`` bytes."""
        async with self._registries.asking(self._visitor, repository) as registry:
            return await registry.read_blob(repository, descriptor, limit=limit)


_LEAST: Final = 0.05


def _holds_logins(data: Mapping[str, bytes]) -> bool:
    """Tell whether a Secret is of a type that logins are looked for in."""
    return dockerconfig.CONFIG_JSON in data or dockerconfig.DOCKERCFG in data


def _timed_out(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, TimeoutError):
        error = error.__cause__
    return error is not None


def _now() -> float:
    return asyncio.get_running_loop().time()
