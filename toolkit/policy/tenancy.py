"""Which permissions an object uses, so that only users who have them may write it.

A Kustomization or HelmRelease acts as a service account, reaches another cluster with a kubeconfig,
decrypts with keys, and reads values. A source signs in with credentials. A user who writes such an
object uses these indirectly, so the user must have them: be the account, be allowed to
``impersonate`` it, or to ``get`` the Secret (``secretrefs`` lists the fields), or have the verb
``use``.
``powers`` lists what an object uses; the caller asks the API server about the requester. Pure.

A change of the pace alone uses nothing new, and neither does a change of metadata or status: writes
of controllers and the removal of finalizers are always allowed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from toolkit.errors import AccessDeniedError
from toolkit.objects import Json, dig, gvk_of
from toolkit.policy import claims, secretrefs

PROTECTED: Final = "policy.penstock.dev/"
"""Prefix of labels of namespaces that only users who may change policies may change."""
REQUIRED: Final = f"{PROTECTED}require-service-account"
"""Label of a namespace: whether appliers must name a service account, ``true`` or ``false``."""

MOST_SECRETS: Final = 64
"""Limit of Secrets in one list, because each costs a question about the requester."""

GroupKind = tuple[str, str]
_KUSTOMIZATION: Final = ("kustomize.toolkit.fluxcd.io", "Kustomization")
_HELM_RELEASE: Final = ("helm.toolkit.fluxcd.io", "HelmRelease")
_SOURCE: Final = "source.toolkit.fluxcd.io"
_NOTIFICATION: Final = "notification.toolkit.fluxcd.io"
_IMAGE: Final = "image.toolkit.fluxcd.io"
_AUTOMATION: Final = (_IMAGE, "ImageUpdateAutomation")

ACCOUNTS: Final[tuple[tuple[GroupKind, str], ...]] = (
    # applies,
    (_KUSTOMIZATION, "spec.serviceAccountName"),
    (_HELM_RELEASE, "spec.serviceAccountName"),
    # asks a cloud for keys,
    (_KUSTOMIZATION, "spec.decryption.serviceAccountName"),
    (_HELM_RELEASE, "spec.decryption.serviceAccountName"),
    # signs in where sources are.
    ((_SOURCE, "GitRepository"), "spec.serviceAccountName"),
    ((_SOURCE, "OCIRepository"), "spec.serviceAccountName"),
    ((_SOURCE, "Bucket"), "spec.serviceAccountName"),
    # signs in at services that events are sent to.
    ((_NOTIFICATION, "Provider"), "spec.serviceAccountName"),
    ((_IMAGE, "ImageRepository"), "spec.serviceAccountName"),
)
"""Every field that names a service account. All are accounts of the object's own namespace."""

_SIGNING_IN: Final = MappingProxyType(
    {
        "GitRepository": ("serviceAccountName",),
        "OCIRepository": ("serviceAccountName", "secretRef"),
        "Bucket": ("serviceAccountName", "secretRef"),
        "HelmRepository": ("secretRef",),
        "ImageRepository": ("serviceAccountName", "secretRef"),
    }
)
"""Sources that may sign in at a cloud, with the fields that keep them from the default account."""
_OWN: Final = frozenset({_SOURCE, _IMAGE, _NOTIFICATION})
_CLOUDS: Final = frozenset({"aws", "azure", "gcp"})
PACE: Final = frozenset({"interval", "retryInterval", "timeout", "suspend"})
"""Fields of a spec that change when something is done, and not what."""

_ACT: Final = ("impersonate", "use")
_READ: Final = ("get", "use")
"""Not ``decrypt``: a document of the author's own source can send a Vault token to any address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The defaults of the installation for objects that name no account.

    ``namespace``, ``applier`` and ``releaser`` are those of the accounts that apply Kustomizations
    and HelmReleases by default; the others are flags.
    """

    namespace: str
    applier: str = claims.ACCOUNTS["Kustomization"]
    releaser: str = claims.ACCOUNTS["HelmRelease"]
    default_service_account: str = ""
    default_decryption_service_account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A permission that an object uses; the requester needs one of the verbs on the resource.

    An empty ``name`` means every object of the resource in the namespace. ``implied`` is true if
    the object names nothing and gets the default of the installation.
    """

    field: str
    resource: str
    namespace: str
    name: str
    verbs: tuple[str, ...]
    implied: bool = False

    @property
    def user(self) -> str:
        """Return the name of the user that is the account itself, and so needs no permission."""
        if self.resource != "serviceaccounts" or not self.name:
            return ""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def belongs_to(self, user: str) -> bool:
        """Tell whether the user is the account itself."""
        return bool(self.user) and user == self.user

    def attributes(self) -> Iterator[dict[str, str]]:
        """Yield what to ask the API server, of which one permission is enough."""
        for verb in self.verbs:
            yield {
                "verb": verb,
                "group": "",
                "resource": self.resource,
                "namespace": self.namespace,
                "name": self.name,
            }

    def refusal(self, user: str, *, named: bool = True) -> AccessDeniedError:
        """Return the denial with its remedy.

        A default account of the installation is only ``named`` to users who may know it.
        """
        if self.implied and not named:
            return AccessDeniedError(
                f"{self.field} is not set, so this would act as the installation's default account,"
                f" which user '{user}' may not use: name an account that you may use"
            )
        what = f"'{self.namespace}/{self.name}'" if self.name else f"all of '{self.namespace}'"
        verbs = " or ".join(f"'{verb}'" for verb in self.verbs)
        lead = f"{self.field} is not set, so this would act as {what}" if self.implied else ""
        lead = lead or f"{self.field} needs {self.resource} {what}"
        hint = "name an account that you may use, or ask" if self.implied else "ask"
        return AccessDeniedError(
            f"{lead}, which user '{user}' may not use: {hint} for the verb {verbs} on "
            f"{self.resource} {what}"
        )


def lends(new: Json, old: Json | None) -> bool:
    """Tell whether a write makes an object act in another way, so that powers are in question."""
    return old is None or _acting(new) != _acting(old)


def powers(obj: Json, namespace: str, installation: Installation) -> tuple[Power, ...]:
    """Return everything that an object of ``namespace`` borrows."""
    kind = gvk_of(obj).group_kind
    if kind in {_KUSTOMIZATION, _HELM_RELEASE}:
        own = installation.applier if kind == _KUSTOMIZATION else installation.releaser
        accounts = (
            *_applying(obj, namespace, installation, own),
            *_decrypting(obj, namespace, installation),
        )
    else:
        accounts = (
            *_named(obj, namespace),
            *_signing_in(obj, namespace, installation),
        )
    return (*accounts, *_reading(obj, namespace))


def pushing(
    repository: Json | None, namespace: str, installation: Installation
) -> tuple[Power, ...]:
    """Return what an ImageUpdateAutomation borrows from the GitRepository that it pushes to.

    These are the credentials of the GitRepository of the same ``namespace``. One that does not
    exist yet may name any Secret tomorrow. In another namespace, a ReferenceGrant for
    ImageUpdateAutomations is the consent of the owner.
    """
    field = "spec.sourceRef"
    if repository is None:
        return (_secret(field, namespace, ""),)
    return tuple(
        replace(power, field=field)
        for power in powers(repository, namespace, installation)
        if not power.field.startswith("spec.verify")
    )


def pushes_to(obj: Json, namespace: str) -> str:
    """Return the name of the GitRepository of the same namespace that an object pushes to."""
    if gvk_of(obj).group_kind != _AUTOMATION:
        return ""
    ref = dig(obj, "spec", "sourceRef", default={})
    near = ref.get("namespace") in {None, "", namespace}
    return str(ref.get("name") or "") if near else ""


def require_account(labels: Mapping[str, str], *, account: str, remote: bool) -> None:
    """Require that an applier names an account, if the labels of its namespace say so.

    ``account`` is the account that it names or gets by a flag. A ``remote`` applier needs none,
    because a kubeconfig has its own identity.

    Raises:
        AccessDeniedError: the applier must name an account and does not.
    """
    required = labels.get(REQUIRED, "false").lower() != "false"
    if required and not account and not remote:
        raise AccessDeniedError(
            "spec.serviceAccountName must be set: the namespace requires it by its label "
            f"{REQUIRED}"
        )


def protected(new: Json, old: Json | None) -> frozenset[str]:
    """Return the protected labels of a namespace that a write adds, changes or removes."""
    after, before = (_protected_labels(each or {}) for each in (new, old))
    return frozenset(key for key, _ in after.items() ^ before.items())


def _protected_labels(namespace: Json) -> dict[str, str]:
    labels = dig(namespace, "metadata", "labels", default={})
    return {key: str(value) for key, value in labels.items() if key.startswith(PROTECTED)}


def _acting(obj: Json) -> dict[str, Any]:
    spec = dig(obj, "spec", default={})
    return {key: value for key, value in spec.items() if key not in PACE}


def _reading(obj: Json, namespace: str) -> Iterator[Power]:
    """Yield each Secret that an object names; of very many in a list, all of the namespace."""
    listed: dict[str, dict[str, secretrefs.Named]] = {}
    for each in secretrefs.named(obj, namespace):
        if each.listed:
            listed.setdefault(each.listed, {}).setdefault(each.name, each)
        else:
            yield _secret(each.path, each.namespace, each.name)
    for field, found in listed.items():
        if len(found) > MOST_SECRETS:
            yield _secret(field, namespace, "")
        else:
            yield from (_secret(each.path, each.namespace, each.name) for each in found.values())


def _applying(obj: Json, namespace: str, installation: Installation, own: str) -> Iterator[Power]:
    """Yield the account with which an object applies; ``own`` is the default account."""
    remote = dig(obj, "spec", "kubeConfig")
    if remote:
        # the account, if one is named, is of the other cluster
        if remote.get("configMapRef"):
            # a ConfigMap can name any account, and another one tomorrow
            yield _account("spec.kubeConfig.configMapRef", namespace, "")
        return
    field = "spec.serviceAccountName"
    named = str(dig(obj, "spec", "serviceAccountName", default=""))
    if named:
        yield _account(field, namespace, named)
    elif installation.default_service_account:
        yield _account(field, namespace, installation.default_service_account, implied=True)
    else:
        yield _account(field, installation.namespace, own, implied=True)


def _decrypting(obj: Json, namespace: str, installation: Installation) -> Iterator[Power]:
    decryption = dig(obj, "spec", "decryption")
    if not decryption:
        return
    field = "spec.decryption.serviceAccountName"
    named = str(decryption.get("serviceAccountName") or "")
    default = installation.default_decryption_service_account
    if named or default:
        yield _account(field, namespace, named or default, implied=not named)


def _named(obj: Json, namespace: str) -> Iterator[Power]:
    """Yield the accounts that an object of another kind names."""
    kind = gvk_of(obj).group_kind
    for holder, path in ACCOUNTS:
        name = dig(obj, *path.split(".")) if holder == kind else ""
        if name:
            yield _account(path, namespace, str(name))


def _signing_in(obj: Json, namespace: str, installation: Installation) -> Iterator[Power]:
    """Yield the account that a source gets that asks a cloud and names neither account nor Secret.

    Without the flag it is the controller itself, which is the cloud's to limit.
    """
    group, kind = gvk_of(obj).group_kind
    spec, default = dig(obj, "spec", default={}), installation.default_service_account
    fields = _SIGNING_IN.get(kind, ()) if group in _OWN else ()
    asks = bool(fields) and spec.get("provider") in _CLOUDS
    if asks and default and not any(spec.get(field) for field in fields):
        yield _account(f"spec.{fields[0]}", namespace, default, implied=True)


def _account(field: str, namespace: str, name: str, *, implied: bool = False) -> Power:
    return Power(
        field=field,
        resource="serviceaccounts",
        namespace=namespace,
        name=name,
        verbs=_ACT,
        implied=implied,
    )


def _secret(field: str, namespace: str, name: str) -> Power:
    return Power(field=field, resource="secrets", namespace=namespace, name=name, verbs=_READ)
