"""Decrypt Secrets at admission: the data of a carrier becomes the content of its document.

The response to a write shows the requester the decrypted values, also after a dry-run. So a user
who may send ciphertext here can read it, and the rules below decide who may. The steps of
``review`` are numbered.

1. The Secret opts in with a label; ``ciphertextguard`` refuses ciphertext without it.
2. A labelled Secret without a document keeps its data: only a new document changes them.
3. Keys are in Secrets of the namespace of the Secret to decrypt, or of the Kustomization or
   HelmRelease that the request claims to come from and that names them in ``spec.decryption``. No
   other keys are tried.
4. The requester needs the verb ``decrypt`` on these Secrets. The claim of an applier is sufficient,
   because only Penstock's controllers can make it, and the applier is read again before it counts.
5. Key services are asked with the content of these Secrets. An applier also allows the use of its
   account, and the process's own identity is used only if the operator allows it. If the requester
   may not read the Secret, its Vault token is only sent to servers that the Secret lists.
6. The document is decrypted in a thread, and its MAC is verified. Without an applier, it must have
   been made for this very Secret.

Only data keys that a key service opened are kept between requests, for requesters with the same
credentials. Neither keys nor values are in logs, messages or audit annotations.
"""

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crds import HELM_RELEASE, KUSTOMIZATION
from toolkit.decrypt import envelope
from toolkit.decrypt.envelope import Opened
from toolkit.decrypt.errors import DecryptionError, UnreachableError
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.kms import logins
from toolkit.decrypt.kms.services import KeyServices
from toolkit.decrypt.kms.ways import Access
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.rbac import Rule as Permission
from toolkit.kube.secrets import SECRET, Secrets
from toolkit.kube.tokens import GATE, ServiceAccountTokens
from toolkit.objects import Json, ObjectRef, dig
from toolkit.policy import claims
from toolkit.policy.claims import UntrustedError
from webhooks.authorizer import Authorizer
from webhooks.plugin import Answer, DeniedError, Row, Rule
from webhooks.request import Request
from webhooks.services import Services

VERB: Final = "decrypt"
"""The verb that the requester needs on the Secrets with the keys."""

MAX_KEY_SECRETS: Final = 16
"""Labelled key Secrets of one namespace that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIns:
    """The identities for key services.

    ``default_account`` and ``own`` are flags: the account of appliers that name none, and whether
    the identity of this process may be used without an account.
    """

    services: KeyServices
    tokens: ServiceAccountTokens
    default_account: str = ""
    own: bool = False


class Decryption:
    """Decrypts one Secret a request."""

    def __init__(
        self,
        *,
        client: Client,
        secrets: Secrets,
        authorize: Authorizer,
        namespace: str,
        sign_ins: SignIns,
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._authorize = authorize
        self._namespace = namespace
        self._sign_ins = sign_ins

    @classmethod
    def make(cls, services: Services) -> "Decryption":
        """Return the plugin with the services of the process."""
        return cls(
            client=services.client,
            secrets=services.secrets,
            authorize=services.authorize,
            namespace=services.namespace,
            sign_ins=SignIns(
                services=KeyServices(services.cloud, engine=services.keys()),
                tokens=ServiceAccountTokens(
                    services.client,
                    cache=services.cloud.services.cache,
                    object_level=services.options.feature_gates.get(GATE, False),
                ),
                default_account=services.options.default_decryption_service_account,
                own=services.options.shared_decryption_identity,
            ),
        )

    async def review(self, request: Request) -> Answer:
        """Fill the Secret, or deny."""
        # 1. Does the Secret opt in?
        secret = request.object
        if secret is None or not envelope.opted_in(secret):
            return _forgotten(secret)

        # 2. Is there anything to decrypt?
        if not envelope.carries(secret):
            return _kept(request, secret)

        # 3. and 4. Whose keys, and may this requester use them?
        voucher, names = await self._lent(request, secret)
        namespace = voucher.applier.namespace if voucher else request.namespace
        held = [await self._read(namespace, name) for name in names]

        # 5. and 6. Decrypt, asking key services if these keys do not suffice.
        named = {**secret, "metadata": {**secret["metadata"], "namespace": request.namespace}}
        try:
            # A user may name the key service.
            async with request.place.away():
                opened = await self._opened(named, held, voucher, flow=request.namespace)
        except DecryptionError as error:
            code = 503 if isinstance(error, UnreachableError) else 403
            raise DeniedError(f"cannot decrypt {request.ref}: {error}", code=code) from None
        audit = {
            "document": opened.annotations[envelope.DOCUMENT],
            "keys": ",".join(f"{namespace}/{name}" for name in names),
            "account": f"{namespace}/{voucher.account}" if voucher and voucher.account else "",
            "vouched-by": str(voucher.applier) if voucher else "",
        }
        filled = envelope.filled(secret, opened)
        return Answer(object=filled, audit={key: text for key, text in audit.items() if text})

    async def _opened(
        self,
        secret: Json,
        held: Sequence[Mapping[str, bytes]],
        voucher: "_Voucher | None",
        *,
        flow: str,
    ) -> Opened:
        ring = await asyncio.to_thread(KeyRing.from_secret, _together(held))
        entries = tuple(map(logins.from_secret, held))
        work = functools.partial(_open, secret, bound=voucher is None)

        async def access() -> Access:
            if voucher is None:
                return Access(logins=entries)
            account = voucher.account or self._sign_ins.default_account
            tokens, namespace = self._sign_ins.tokens, voucher.applier.namespace
            return Access(
                logins=entries,
                account=await tokens.identity(namespace, account) if account else None,
                own=self._sign_ins.own,
                listed=False,
            )

        return await self._sign_ins.services.open(work, ring, access, flow=flow)

    async def _lent(
        self, request: Request, secret: Json
    ) -> tuple["_Voucher | None", tuple[str, ...]]:
        """Return the applier of the claim, if there is one, and the Secrets with the keys."""
        why = ""
        try:
            if voucher := await self._voucher(request):
                return voucher, voucher.names
        except UntrustedError as error:
            why = str(error)
        return None, await self._permitted(request, secret, why)

    async def _voucher(self, request: Request) -> "_Voucher | None":
        """Return the applier that the request claims; None without a claim.

        The claim is only a name. The current object of that name decides: its own key Secret, for
        the account with which it applies, on this cluster.

        Raises:
            UntrustedError: the claim is not true.
        """
        claimed = claims.parse(request.user.extra)
        if claimed is None:
            return None
        applier = claimed.applier
        try:
            obj = await self._client.get(applier.gvk, applier.name, applier.namespace)
        except NotFoundError:
            raise UntrustedError(f"{applier} does not exist") from None
        if dig(obj, "spec", "kubeConfig"):
            raise UntrustedError(f"{applier} applies to another cluster (spec.kubeConfig)")
        if not self._acts_as(request, applier, obj):
            raise UntrustedError(f"{applier} does not act as '{request.user.name}'")
        keys = dig(obj, "spec", "decryption", "secretRef", "name", default="")
        account = dig(obj, "spec", "decryption", "serviceAccountName", default="")
        if not (keys or account):
            raise UntrustedError(
                f"{applier} names no keys: name a Secret with keys in its"
                " spec.decryption.secretRef, or an account in spec.decryption.serviceAccountName"
            )
        return _Voucher(applier, keys, account)

    def _acts_as(self, request: Request, applier: ObjectRef, obj: Json) -> bool:
        """Tell whether the requester is an account that this applier acts as."""
        user, namespace = request.user.name, applier.namespace
        name = dig(obj, "spec", "serviceAccountName", default="")
        if name:
            return user == impersonation.service_account(namespace, name)
        default = impersonation.service_account(self._namespace, claims.ACCOUNTS[applier.gvk.kind])
        return user == default or user.startswith(impersonation.service_account(namespace, ""))

    async def _permitted(self, request: Request, secret: Json, why: str) -> tuple[str, ...]:
        """Return the key Secrets of the namespace that the requester may use.

        The denial is the same for all requesters and all Secrets, so it discloses no keys of
        others. For an applier it has the reason ``why`` its claim is not accepted.
        """
        named = dig(secret, "metadata", "annotations", envelope.KEYS_FROM, default="")
        names = (named,) if named else await self._labelled(request.namespace)
        allowed = [
            name
            for name in names
            if await self._authorize.allowed(
                request.user,
                verb=VERB,
                group="",
                resource="secrets",
                namespace=request.namespace,
                name=name,
            )
        ]
        if not allowed:
            which = f"Secret '{named}'" if named else "any key"
            raise DeniedError(
                f"{request.ref} is encrypted, and user '{request.user.name}' may not decrypt with"
                f" {which} of namespace '{request.namespace}': this needs the verb '{VERB}' on a"
                f" Secret there that holds keys and has the label {envelope.KEYS_LABEL}=true, or"
                f" is named by the annotation {envelope.KEYS_FROM}" + (f"; {why}" if why else "")
            )
        return tuple(allowed)

    async def _labelled(self, namespace: str) -> tuple[str, ...]:
        selector = f"{envelope.KEYS_LABEL}={envelope.ENABLED}"
        found = await self._client.list(SECRET, namespace, label_selector=selector)
        if len(found) > MAX_KEY_SECRETS:
            raise DeniedError(
                f"namespace '{namespace}' has more than {MAX_KEY_SECRETS} Secrets with the label"
                f" {envelope.KEYS_LABEL}; name one with the annotation {envelope.KEYS_FROM}"
            )
        return tuple(sorted(obj["metadata"]["name"] for obj in found))

    async def _read(self, namespace: str, name: str) -> Mapping[str, bytes]:
        return await self._secrets.read(namespace, name, reason="Forbidden")


@dataclass(frozen=True, slots=True)
class _Voucher:
    """An applier that is trusted for the name of the document, with its Secret and account."""

    applier: ObjectRef
    keys: str
    account: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return the Secrets with its keys."""
        return (self.keys,) if self.keys else ()


def _open(secret: Json, keys: KeyRing, *, bound: bool) -> Opened:
    if envelope.CARRIER in secret["data"]:
        return envelope.open_carrier(secret, keys, bound=bound)
    if bound:
        raise DecryptionError(
            "SOPS documents in values do not say which Secret they are for, so only a Kustomization"
            " or HelmRelease with spec.decryption may send them; encrypt the manifest as a whole"
        )
    return envelope.open_values(secret, keys)


def _together(held: Sequence[Mapping[str, bytes]]) -> dict[str, bytes]:
    """Return the entries of all Secrets; where names are the same, both count."""
    merged: dict[str, bytes] = {}
    for number, data in enumerate(held):
        merged |= {f"{number}.{key}" if key in merged else key: data[key] for key in data}
    return merged


def _kept(request: Request, secret: Json) -> Answer:
    """Let a Secret without a document pass if its data are those that were decrypted before."""
    old = request.old
    if not envelope.opted_in(old) or old is None:
        raise DeniedError(
            f"{request.ref} has the label {envelope.LABEL} but no SOPS document: put the encrypted"
            f" manifest under data.{envelope.CARRIER} (`penstock apply` does), or remove the label"
        )
    if (secret.get("data") or {}) != (old.get("data") or {}):
        raise DeniedError(
            f"{request.ref} gets its data from its SOPS document: change the document,"
            f" or remove the label {envelope.LABEL}"
        )
    before = dig(old, "metadata", "annotations", default={})
    kept = {name: before[name] for name in _NOTES if name in before}
    notes = dig(secret, "metadata", "annotations", default={})
    if kept == {name: notes[name] for name in _NOTES if name in notes}:
        return Answer()
    return Answer(object=_noted(secret, kept))


def _forgotten(secret: Json | None) -> Answer:
    """Remove our annotations from a Secret without the label."""
    notes = dig(secret or {}, "metadata", "annotations", default={})
    if secret is None or not any(name in notes for name in _NOTES):
        return Answer()
    return Answer(object=_noted(secret, {}))


_NOTES: Final = (envelope.DOCUMENT, envelope.RECIPIENTS)


def _noted(secret: Json, ours: Mapping[str, str]) -> Json:
    metadata = secret["metadata"]
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _NOTES}
    return {**secret, "metadata": {**metadata, "annotations": {**notes, **ours}}}


ROW: Final = Row(
    name="decryption",
    mutating=True,
    rules=(Rule(groups=("",), versions=("v1",), resources=("secrets",)),),
    make=Decryption.make,
    object_selector={"matchLabels": {envelope.LABEL: envelope.ENABLED}},
    # A labelled Secret is never stored encrypted, in any namespace.
    everywhere=True,
    discloses=True,
    permissions=(
        # The Secrets with keys; no other process needs to read them.
        Permission(groups=("",), resources=("secrets",), verbs=("get", "list")),
        # The objects to verify claims.
        *(
            Permission(groups=(kind.group,), resources=(kind.plural,), verbs=("get",))
            for kind in (KUSTOMIZATION, HELM_RELEASE)
        ),
        # The account at a key service. The component workload-identity grants its tokens.
        Permission(groups=("",), resources=("serviceaccounts",), verbs=("get",)),
    ),
)
