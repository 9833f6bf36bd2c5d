"""Tokens of ServiceAccounts: how an object proves its identity to other services (TokenRequest).

Objects name accounts of their own namespace only. As with Pods, anyone who may write an object, or
the ConfigMap that it names, can act as any account of the namespace; the namespace is the boundary.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from toolkit import untrusted
from toolkit.errors import StalledError, TransientError
from toolkit.kube import mapper
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ForbiddenError, NotFoundError
from toolkit.objects import Json, dig
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.identity import Bearer, Identity

GATE: Final = "ObjectLevelWorkloadIdentity"

_EXCHANGE_SECONDS: Final = 600
"""The shortest life that the API server gives; the token is exchanged at once."""
_ENTRY_SECONDS: Final = 3600
_CLOUDS: Final = (
    "eks.amazonaws.com/",
    "azure.workload.identity/",
    "iam.gke.io/",
    "gcp.auth.fluxcd.io/",
)
_REASON: Final = "AuthenticationFailed"


class ServiceAccountTokens:
    """Makes identities of ServiceAccounts, and tokens for clusters that trust our issuer.

    ``object_level`` is whether objects may name accounts for clouds at all
    (``--feature-gates=ObjectLevelWorkloadIdentity=true``); ``default_account`` is the one of those
    that name none, instead of this process. Needs ``get`` on serviceaccounts and ``create`` on
    serviceaccounts/token.
    """

    def __init__(
        self,
        client: Client,
        *,
        cache: TokenCache,
        object_level: bool = False,
        default_account: str = "",
    ) -> None:
        self._client = client
        self._cache = cache
        self._object_level = object_level
        self._default_account = default_account

    async def identity(
        self, namespace: str, account: str, *, reason: str = _REASON
    ) -> Identity | None:
        """Return an account's identity at a cloud provider; None (this process) without account.

        ``reason`` is the reason of the error if the account does not exist or may not be read.

        Raises:
            StalledError: an account is named, and the feature is off.
            TransientError: the account does not exist, or may not be read.
        """
        name = account or self._default_account
        if not name:
            return None
        if not self._object_level:
            named = "serviceAccountName or the flag that names one by default"
            where = named if account else "--default-service-account"
            raise StalledError(
                f"ServiceAccount '{namespace}/{name}' cannot be used at a cloud: the feature is"
                f" off; start with --feature-gates={GATE}=true, or remove {where}",
                reason="FeatureGateDisabled",
            )
        return await self.account(namespace, name, reason=reason)

    async def account(self, namespace: str, name: str, *, reason: str = _REASON) -> Identity:
        """Return an account as it is now.

        Raises:
            TransientError: it does not exist, or may not be read, with this ``reason``.
        """
        shown = f"ServiceAccount '{namespace}/{name}'"
        try:
            obj = await self._client.request("GET", _path(namespace, name))
        except NotFoundError as exc:
            raise TransientError(
                f"failed to get service account '{namespace}/{name}': {shown} not found: create it,"
                " or correct serviceAccountName",
                reason=reason,
            ) from exc
        except ForbiddenError as exc:
            raise TransientError(
                f"{shown} cannot be read: this controller needs the right to get serviceaccounts",
                reason=reason,
            ) from exc
        uid = str(dig(obj, "metadata", "uid", default=""))

        async def token(*audiences: str) -> str:
            bearer = await self._request(namespace, name, uid, audiences, _EXCHANGE_SECONDS)
            return bearer.token

        return Identity(
            namespace=namespace, name=name, uid=uid, annotations=_annotations(obj), token=token
        )

    async def bearer(self, who: Identity, audiences: tuple[str, ...]) -> Bearer:
        """Return a token to enter a cluster with that trusts our issuer; it is kept.

        Raises:
            TransientError: the API server gives none.
        """

        async def fetch() -> Bearer:
            return await self._request(who.namespace, who.name, who.uid, audiences, _ENTRY_SECONDS)

        return await self._cache.get("generic", (who.key, audiences), fetch)

    def lasting(self, namespace: str, name: str, audience: str) -> Callable[[], Awaitable[str]]:
        """Return a function that returns an account's token for one audience, with a cache.

        It raises the errors of ``account`` and ``bearer``.
        """

        async def token() -> str:
            return (await self.bearer(await self.account(namespace, name), (audience,))).token

        return token

    async def _request(
        self, namespace: str, name: str, uid: str, audiences: tuple[str, ...], seconds: int
    ) -> Bearer:
        shown = f"ServiceAccount '{namespace}/{name}'"
        spec = {"audiences": list(audiences), "expirationSeconds": seconds}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            path = f"{_path(namespace, name)}/token"
            answer = await self._client.request("POST", path, body=body)
        except ForbiddenError as exc:
            raise TransientError(
                f"no token for {shown}: this controller needs the right to create"
                " serviceaccounts/token: bind its ClusterRole …-workload-identity in namespace"
                f" '{namespace}', or install deploy/components/workload-identity",
                reason=_REASON,
            ) from exc
        except ApiError as exc:
            raise TransientError(f"no token for {shown}: {exc}", reason=_REASON) from exc
        token, end = _status(answer, shown)
        # An account that was created again is another one, with other permissions.
        if uid and _uid(token) not in {"", uid}:
            raise TransientError(f"{shown} was replaced just now", reason=_REASON)
        return Bearer(token=token, expires_at=end)


def _path(namespace: str, name: str) -> str:
    place = f"/api/v1/namespaces/{mapper.segment(namespace)}/serviceaccounts"
    return f"{place}/{mapper.segment(name)}"


def _annotations(obj: Json) -> Mapping[str, str]:
    """Return the annotations that cloud providers read; others may change at any time."""
    given: Mapping[str, Any] = dig(obj, "metadata", "annotations", default={})
    return {key: str(value) for key, value in given.items() if key.startswith(_CLOUDS)}


def _status(answer: Json, shown: str) -> tuple[str, datetime]:
    try:
        token = str(answer["status"]["token"])
        end = datetime.fromisoformat(answer["status"]["expirationTimestamp"])
    except (KeyError, TypeError, ValueError) as exc:
        raise TransientError(f"no token for {shown}: the answer lacks it", reason=_REASON) from exc
    return token, end if end.tzinfo else end.replace(tzinfo=UTC)


def _uid(token: str) -> str:
    """Return the UID of the account in the token, whose issuer has just created it."""
    try:
        payload = token.split(".")[1]
        decoded = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        claims = untrusted.load_json(decoded, dict[str, Any], size=len(token))
    except (IndexError, ValueError):
        return ""
    return str(dig(claims, "kubernetes.io", "serviceaccount", "uid", default=""))
