"""What ``spec.decryption`` lends to a build: the keys of a Secret, and sign-ins at key services.

Read when a document needs it, and once a pass. The account is the Kustomization's own, or the
default of the flag. This process signs in as itself only where the operator allowed it: anyone who
can write a Kustomization would otherwise have opened what this process may open.
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
    """What the Secret holds."""

    ring: KeyRing
    logins: tuple[Logins, ...] = ()


class Keys:
    """Decrypts with what one Kustomization lends."""

    def __init__(
        self,
        services: KeyServices,
        *,
        read: Callable[[], Awaitable[Held]],
        access: Callable[[Held], Awaitable[Access]],
    ) -> None:
        self._services = services
        self._read = read
        self._sign = access
        self._held: Held | None = None
        self._access: Access | None = None

    async def load(self) -> Held:
        """Read the Secret.

        Raises:
            TransientError: it is missing, or holds no usable key.
        """
        if self._held is None:
            self._held = await self._read()
        return self._held

    async def skipped(self) -> tuple[Skipped, ...]:
        """Return which keys cannot be used, of a Secret that was read."""
        return await self._services.skipped(self._held.ring) if self._held else ()

    async def each(self, works: Sequence[Work[T]]) -> list[T]:
        """Return the results of works that decrypt one document each.

        Raises:
            PenstockError: what the first of them that failed raises, or why there are no keys.
        """
        if not works:
            return []
        held = await self.load()

        async def access() -> Access:
            if self._access is None:
                self._access = await self._sign(held)
            return self._access

        return await self._services.each(works, held.ring, access)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decryption:
    """How documents are decrypted in this process.

    ``default_account`` and ``own`` are flags: the account of Kustomizations that name none, and
    whether this process may sign in as itself for those that have none.
    """

    secrets: Secrets
    services: KeyServices
    tokens: ServiceAccountTokens
    default_account: str = ""
    own: bool = False

    def keys(self, obj: Kustomization, versions: list[str]) -> Keys:
        """Return the keys of a Kustomization; the versions of what is read are noted."""
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
            # The documents are those that the Kustomization vouches for, so that a Vault need not
            # be one that the Secret lists (as in Flux).
            try:
                who = await self.tokens.identity(namespace, account) if account else None
            except TransientError as error:
                context = "cannot sign in to open the data keys"
                raise error.within(context, reason="BuildFailed") from error.__cause__
            return Access(
                logins=held.logins,
                account=who,
                own=self.own,
                listed=False,
            )

        return Keys(self.services, read=read, access=access)
