"""The objects for the chapters about the gate: a tenant's namespace and an encrypted Secret."""

import datetime as dt
from typing import Final

import pyrage
import yaml

from cli.demo import sample
from cli.demo.signing import Author
from toolkit.decrypt import seal
from toolkit.objects import GroupVersionKind, Json, ObjectRef

NAMESPACE: Final = "team-a"
_POLICY: Final = "policy.penstock.dev"
_TRUSTED: Final = "authors"
_KEYS: Final = "sops-age"

SOURCE_POLICY: Final = ObjectRef(
    GroupVersionKind(_POLICY, "v1alpha1", "SourcePolicy"), "", "tenants"
)
GRANT: Final = ObjectRef(GroupVersionKind(_POLICY, "v1alpha1", "ReferenceGrant"), NAMESPACE, "shop")
SIGNED: Final = ObjectRef(sample.GIT_REPOSITORY.gvk, NAMESPACE, "signed")
MENU: Final = ObjectRef(sample.KUSTOMIZATION.gvk, sample.SHOP, "menu")
DECRYPTED: Final = f"spec: {{decryption: {{provider: sops, secretRef: {{name: {_KEYS}}}}}}}"
"""The patch that has the Kustomization decrypted."""
DATABASE: Final = ObjectRef(GroupVersionKind("", "v1", "Secret"), sample.SHOP, "database")


def signatures_demanded(url: str, author: Author) -> list[Json]:
    """Return the namespace, the policy that holds there, and the key to verify with."""
    root = url.rpartition("/")[0]
    entry = {
        "kind": "GitRepository",
        "urls": [f"{root}/**"],
        "verify": {"git": {"mode": "HEAD", "keys": [author.fingerprint]}},
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    policy = sample.custom(SOURCE_POLICY, {"namespaceSelector": selector, "sources": [entry]})
    del policy["metadata"]["namespace"]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        policy,
        _secret(NAMESPACE, _TRUSTED, {"ada.sshpub": author.public}),
    ]


def source(url: str, *, verified: bool) -> Json:
    """Return a GitRepository of the tenant, which may leave out whose signature it wants."""
    spec: Json = {"interval": "1m", "url": url, "ref": {"branch": "main"}}
    if verified:
        spec["verify"] = {"mode": "HEAD", "secretRef": {"name": _TRUSTED}}
    return sample.custom(SIGNED, spec)


def menu() -> dict[str, str]:
    """Return the content of the tenant's repository that the shop uses."""
    metadata = {"name": "menu"}
    data = {"soup": "tomato"}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return {"menu/menu.yaml": yaml.safe_dump(obj, sort_keys=False)}


def borrower() -> Json:
    """Return a Kustomization of the shop whose source is the tenant's."""
    return sample.custom(
        MENU,
        {
            "interval": "10m",
            "sourceRef": {
                "kind": SIGNED.gvk.kind,
                "name": SIGNED.name,
                "namespace": SIGNED.namespace,
            },
            "path": "./menu",
            "targetNamespace": MENU.namespace,
            "prune": True,
        },
    )


def grant() -> Json:
    """Return the tenant's consent."""
    holder = {"group": MENU.gvk.group, "kind": MENU.gvk.kind, "namespace": MENU.namespace}
    target = {"group": SIGNED.gvk.group, "kind": SIGNED.gvk.kind, "name": SIGNED.name}
    return sample.custom(GRANT, {"from": [holder], "to": [target]})


class Vault:
    """An age key: the public half encrypts, the private one is in a Secret of the cluster."""

    def __init__(self) -> None:
        self._identity = pyrage.x25519.Identity.generate()

    def sealed(self, password: str) -> dict[str, str]:
        """Return the file of the encrypted Secret, as ``penstock seal`` writes it."""
        obj = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": DATABASE.name, "namespace": DATABASE.namespace},
            "stringData": {"password": password},
        }
        plain = yaml.safe_dump(obj, sort_keys=False).encode()
        recipients = (str(self._identity.to_public()),)
        document = seal.seal(plain, recipients, now=dt.datetime.now(dt.UTC))
        return {"deploy/database.yaml": document.decode()}

    def keys(self) -> Json:
        """Return the Secret with the private half."""
        return _secret(sample.NAMESPACE, _KEYS, {"shop.agekey": str(self._identity)})


def _secret(namespace: str, name: str, values: dict[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": values,
    }
