"""Rules for the keys of ``spec.decryption``, and the clusters for decrypted objects."""

from collections.abc import Iterator
from typing import Final, Protocol

from crds.kustomize_parts import Decryption
from crds.meta import KubeConfigReference
from webhooks.validation.rule import Fault, Named, Rule, WithSpec, when

_FIELDS: Final = ("spec.decryption.secretRef", "spec.decryption.serviceAccountName")


class _Decrypting(Protocol):
    @property
    def decryption(self) -> Decryption | None: ...
    @property
    def kube_config(self) -> KubeConfigReference | None: ...


def _keys(obj: WithSpec[_Decrypting]) -> Iterator[Fault]:
    decryption = obj.spec.decryption
    none = decryption and not decryption.secret_ref and not decryption.service_account_name
    why = (
        "it names no keys, and the controller does not use its own identity unless a flag allows it"
    )
    yield from when(none, "spec.decryption", why)


def _elsewhere(obj: WithSpec[_Decrypting]) -> Iterator[Fault]:
    remote = obj.spec.decryption and obj.spec.kube_config
    why = "the webhook of another cluster decrypts nothing with the keys of this one"
    yield from when(remote, "spec.decryption", why)


KEYS: Final[Rule[WithSpec[_Decrypting]]] = Rule(
    name="decryption-keys",
    fields=_FIELDS,
    demands="it names keys",
    remedy="name a Secret with keys, or an account that may use a key service",
    find=_keys,
    refuses=False,
)
AT_ADMISSION: Final[Rule[WithSpec[_Decrypting]]] = Rule(
    name="decryption-elsewhere",
    fields=("spec.decryption", "spec.kubeConfig"),
    demands="decryption at admission applies to this cluster only",
    remedy="remove spec.decryption or spec.kubeConfig",
    find=_elsewhere,
)
NAMES: Final = (
    Named(path=_FIELDS[0], kind="Secret"),
    Named(path=_FIELDS[1], kind="ServiceAccount"),
)
