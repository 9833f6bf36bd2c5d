"""ServiceAccounts of objects: their image pull secrets, and their identities at clouds."""

from dataclasses import dataclass
from typing import Final

from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.objects import GroupVersionKind, dig
from toolkit.remote.cloud.identity import Identity

MAX_PULL_SECRETS: Final = 32
"""Each is read in every pass."""

_SERVICE_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
_REASON: Final = "AuthenticationFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Reads ServiceAccounts without a cache: a change takes effect at the next reconciliation."""

    client: Client
    tokens: ServiceAccountTokens

    async def pull_secrets(self, namespace: str, name: str) -> tuple[str, ...]:
        """Return the names of an account's ``imagePullSecrets``.

        Raises:
            TransientError: it does not exist or may not be read, or has too many.
        """
        shown = f"ServiceAccount '{namespace}/{name}'"
        try:
            obj = await self.client.get(_SERVICE_ACCOUNT, name, namespace)
        except NotFoundError as error:
            raise TransientError(
                f"{shown} not found: create it, or correct spec.serviceAccountName", reason=_REASON
            ) from error
        except ForbiddenError as error:
            raise TransientError(
                f"{shown} cannot be read: this controller needs the right to get serviceaccounts",
                reason=_REASON,
            ) from error
        listed = dig(obj, "imagePullSecrets", default=[])
        names = tuple(entry["name"] for entry in listed if entry.get("name"))
        if len(names) > MAX_PULL_SECRETS:
            raise TransientError(
                f"{shown} has {len(names)} imagePullSecrets, of which {MAX_PULL_SECRETS} are read: "
                "name the right one in spec.secretRef",
                reason=_REASON,
            )
        return names

    async def identity(self, namespace: str, account: str) -> Identity | None:
        """Return the identity of an object at a cloud; None stands for this process."""
        return await self.tokens.identity(namespace, account)
