"""The keys of ``spec.decryption``: the content of a Secret, and access to key services.

The Secret is read only if a document needs it, and once per reconciliation. The controller
authenticates at key services as the service account of the Kustomization, or as the default account
from the flag. It uses its own identity only if the operator has allowed it. Otherwise anyone who
can write a Kustomization could decrypt everything that the controller may decrypt.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from crds.kustomize import Kustomization
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.kms import logins
from toolkit.decrypt.kms.logins import Logins
from toolkit.decrypt.kms.services import KeyServices, Work
from toolkit.decrypt.kms.ways import Access
from toolkit.errors import TransientError
from toolkit.kube.secrets import SECRET, Secrets
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.skipped import Skipped

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The content of the Secret: keys, and logins at key services."""

    ring: KeyRing
    logins: tuple[Logins, ...] = ()


class Keys:
    """Decrypts documents with the keys of one Kustomization, which is in ``namespace``."""

    def __init__(
        self,
        services: KeyServices,
        *,
        namespace: str,
        read: Callable[[], Awaitable[Held]],
        access: Callable[[Held], Awaitable[Access]],
    ) -> None:
        self._services = services
        self._namespace = namespace
        self._read = read
        self._sign = access
        self._held: Held | None = None
        self._access: Access | None = None

    async def load(self) -> Held:
        """Read the Secret, once.

        Raises:
            TransientError: the Secret does not exist, or contains no usable key.
        """
        if self._held is None:
            self._held = await self._read()
        return self._held

    async def skipped(self) -> tuple[Skipped, ...]:
        """Return the unusable keys of the Secret; empty if it was not read."""
        if self._held is None:
            return ()
        return await self._services.skipped(self._held.ring, flow=self._namespace)

    async def each(self, works: Sequence[Work[T]]) -> list[T]:
        """Return the results of ``works``, which decrypt one document each.

        Raises:
            PenstockError: the error of the first work that failed, or the keys cannot be read.
        """
        if not works:
            return []
        held = await self.load()

        async def access() -> Access:
            if self._access is None:
                self._access = await self._sign(held)
            return self._access

        return await self._services.each(works, held.ring, access, flow=self._namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decryption:
    """The means to decrypt documents in this process.

    Two fields are flags: ``default_account`` is the service account of Kustomizations that name
    none. ``own`` allows the identity of this process for Kustomizations without an account.
    """

    secrets: Secrets
    services: KeyServices
    tokens: ServiceAccountTokens
    default_account: str = ""
    own: bool = False

    def keys(self, obj: Kustomization, versions: list[str]) -> Keys:
        """Return the keys of a Kustomization.

        When the Secret is read, its version is appended to ``versions``.
        """
        spec = obj.spec.decryption
        namespace = obj.metadata.namespace
        account = (spec.service_account_name if spec else "") or self.default_account

        async def read() -> Held:
            if spec is None or spec.secret_ref is None:
                return Held(ring=KeyRing.from_secret({}))
            name = spec.secret_ref.name
            data = await self.secrets.data(SECRET, namespace, name, reason="BuildFailed")
            versions.append(data.version)
            found = logins.from_secret(data.values)
            return Held(ring=KeyRing.from_secret(data.values), logins=(found,))

        async def access(held: Held) -> Access:
            # The documents come from the Kustomization's own sources. So they may name any Vault,
            # not only those in the Secret (as in Flux).
            try:
                who = await self.tokens.identity(namespace, account) if account else None
            except TransientError as error:
                context = "cannot authenticate at the key service to decrypt the data keys"
                raise error.within(context, reason="BuildFailed") from error.__cause__
            return Access(
                logins=held.logins,
                account=who,
                own=self.own,
                listed=False,
            )

        return Keys(self.services, namespace=namespace, read=read, access=access)
