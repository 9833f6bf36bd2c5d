"""Tokens of ServiceAccounts: how an object proves to others who it is (TokenRequest).

Objects name accounts of their own namespace only. Anyone who may write an object there, or the
ConfigMap that it names, acts as any account there, as with pods; a namespace is the boundary.
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
        """Return who an object is at a cloud; None is this process, where no account is named.

        ``reason`` is that of an account that is missing or may not be read.

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
        """Return what gives an account's tokens for one audience, each kept while it is young.

        It raises what ``account`` and ``bearer`` raise.
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
        # An account that was made anew meanwhile is another one, with other rights.
        if uid and _uid(token) not in {"", uid}:
            raise TransientError(f"{shown} was replaced just now", reason=_REASON)
        return Bearer(token=token, expires_at=end)


def _path(namespace: str, name: str) -> str:
    place = f"/api/v1/namespaces/{mapper.segment(namespace)}/serviceaccounts"
    return f"{place}/{mapper.segment(name)}"


def _annotations(obj: Json) -> Mapping[str, str]:
    """Return what clouds read; the rest changes for reasons of its own."""
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
    """Return whose the token is, as it says; its issuer just made it."""
    try:
        payload = token.split(".")[1]
        decoded = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        claims = untrusted.load_json(decoded, dict[str, Any], size=len(token))
    except (IndexError, ValueError):
        return ""
    return str(dig(claims, "kubernetes.io", "serviceaccount", "uid", default=""))
