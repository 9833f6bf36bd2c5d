"""Which Secrets an object names, and in which namespace they are.

A controller reads these Secrets with its own identity, and the object shows what it found: it sends
a credential to a server, signs with a key, or says in a condition why a Secret is of no use. So
``toolkit.policy.tenancy`` requires that the requester may read each of them. Pure.

``SECRETS`` lists every field of every kind that names a Secret. ``UNJUDGED`` lists every other
field that names something and is in no table of ``references`` or ``tenancy``, with the reason why
naming it takes no permission. A test derives the fields from the schemas of all versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from toolkit.objects import Json, dig, gvk_of
from toolkit.policy import fieldpaths

GroupKind = tuple[str, str]

_SOURCE: Final = "source.toolkit.fluxcd.io"
_NOTIFICATION: Final = "notification.toolkit.fluxcd.io"
_IMAGE: Final = "image.toolkit.fluxcd.io"
_KUSTOMIZATION: Final = ("kustomize.toolkit.fluxcd.io", "Kustomization")
_HELM_RELEASE: Final = ("helm.toolkit.fluxcd.io", "HelmRelease")
_GENERATOR: Final = ("source.extensions.fluxcd.io", "ArtifactGenerator")
_GIT: Final = (_SOURCE, "GitRepository")
_OCI: Final = (_SOURCE, "OCIRepository")
_BUCKET: Final = (_SOURCE, "Bucket")
_HELM: Final = (_SOURCE, "HelmRepository")
_CHART: Final = (_SOURCE, "HelmChart")
_PROVIDER: Final = (_NOTIFICATION, "Provider")
_RECEIVER: Final = (_NOTIFICATION, "Receiver")
_IMAGES: Final = (_IMAGE, "ImageRepository")
_AUTOMATION: Final = (_IMAGE, "ImageUpdateAutomation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field that names a Secret: its path in the holder, with ``[]`` for each element of a list.

    - The Secret is in the namespace of the holder, or in that which the field ``beside`` names.
    - An entry that names its kind names a Secret only if the kind is ``Secret``.
    """

    holder: GroupKind
    path: str
    beside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A field that names something which the requester need not be allowed to read."""

    holder: GroupKind
    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A Secret that an object names; ``listed`` is the path of its list, if it is in one."""

    path: str
    namespace: str
    name: str
    listed: str = ""


SECRETS: Final = (
    # Another cluster, keys to decrypt with, and values.
    Field(holder=_KUSTOMIZATION, path="spec.kubeConfig.secretRef"),
    Field(holder=_KUSTOMIZATION, path="spec.decryption.secretRef"),
    Field(holder=_KUSTOMIZATION, path="spec.postBuild.substituteFrom[]"),
    Field(holder=_HELM_RELEASE, path="spec.kubeConfig.secretRef"),
    Field(holder=_HELM_RELEASE, path="spec.decryption.secretRef"),
    Field(holder=_HELM_RELEASE, path="spec.valuesFrom[]"),
    # The HelmChart is made in the namespace of the source, and reads the Secret there.
    Field(
        holder=_HELM_RELEASE,
        path="spec.chart.spec.verify.secretRef",
        beside="spec.chart.spec.sourceRef.namespace",
    ),
    # Credentials, certificates, proxies, and the keys of signers.
    Field(holder=_GIT, path="spec.secretRef"),
    Field(holder=_GIT, path="spec.proxySecretRef"),
    Field(holder=_GIT, path="spec.verify.secretRef"),
    Field(holder=_OCI, path="spec.secretRef"),
    Field(holder=_OCI, path="spec.certSecretRef"),
    Field(holder=_OCI, path="spec.proxySecretRef"),
    Field(holder=_OCI, path="spec.verify.secretRef"),
    Field(holder=_OCI, path="spec.verify.trustedRootSecretRef"),
    Field(holder=_BUCKET, path="spec.secretRef"),
    Field(holder=_BUCKET, path="spec.certSecretRef"),
    Field(holder=_BUCKET, path="spec.proxySecretRef"),
    Field(holder=_BUCKET, path="spec.sts.secretRef"),
    Field(holder=_BUCKET, path="spec.sts.certSecretRef"),
    Field(holder=_HELM, path="spec.secretRef"),
    Field(holder=_HELM, path="spec.certSecretRef"),
    Field(holder=_CHART, path="spec.verify.secretRef"),
    Field(holder=_CHART, path="spec.verify.trustedRootSecretRef"),
    Field(holder=_PROVIDER, path="spec.secretRef"),
    Field(holder=_PROVIDER, path="spec.certSecretRef"),
    Field(holder=_PROVIDER, path="spec.proxySecretRef"),
    # The path of the hook is made of the token, and can be guessed at.
    Field(holder=_RECEIVER, path="spec.secretRef"),
    Field(holder=_IMAGES, path="spec.secretRef"),
    Field(holder=_IMAGES, path="spec.certSecretRef"),
    Field(holder=_IMAGES, path="spec.proxySecretRef"),
    # Content that is signed with a key counts as content of the owner of the key.
    Field(holder=_AUTOMATION, path="spec.git.commit.signingKey.secretRef"),
)
"""Every field that names a Secret. Reading them takes ``get`` or ``use`` on the Secret."""

_SELECTS: Final = "selects among the objects of the build"
_BUILT: Final = "names a part of the output"
_CONTENT: Final = "the content of a source of the same namespace is read; it holds no credential"
_CHOICE: Final = "the name of a choice, not of an object"
_REVISION: Final = "a branch, tag or commit, not an object"
_FLAG: Final = "it is a flag and names nothing"
_RENDERED: Final = "spec.postRenderers[].kustomize"

UNJUDGED: Final = (
    Unjudged(
        holder=_KUSTOMIZATION,
        path="spec.kubeConfig.configMapRef",
        why="tenancy requires all accounts that the ConfigMap may name",
    ),
    Unjudged(
        holder=_HELM_RELEASE,
        path="spec.kubeConfig.configMapRef",
        why="tenancy requires all accounts that the ConfigMap may name",
    ),
    Unjudged(
        holder=_KUSTOMIZATION,
        path="spec.healthChecks[]",
        why="the rights of the account that applies are the limit",
    ),
    Unjudged(holder=_KUSTOMIZATION, path="spec.patches[].target", why=_SELECTS),
    Unjudged(holder=_KUSTOMIZATION, path="spec.patchesJson6902[].target", why=_SELECTS),
    Unjudged(holder=_KUSTOMIZATION, path="spec.ignore[].target", why=_SELECTS),
    Unjudged(holder=_KUSTOMIZATION, path="spec.images[]", why=_SELECTS),
    Unjudged(holder=_HELM_RELEASE, path="spec.driftDetection.ignore[].target", why=_SELECTS),
    Unjudged(holder=_HELM_RELEASE, path=f"{_RENDERED}.patches[].target", why=_SELECTS),
    Unjudged(holder=_HELM_RELEASE, path=f"{_RENDERED}.patchesJson6902[].target", why=_SELECTS),
    Unjudged(holder=_HELM_RELEASE, path=f"{_RENDERED}.images[]", why=_SELECTS),
    Unjudged(holder=_HELM_RELEASE, path="spec.test.filters[]", why=_SELECTS),
    Unjudged(holder=_HELM_RELEASE, path="spec.install.strategy", why=_CHOICE),
    Unjudged(holder=_HELM_RELEASE, path="spec.upgrade.strategy", why=_CHOICE),
    Unjudged(holder=_HELM_RELEASE, path="spec.waitStrategy", why=_CHOICE),
    Unjudged(holder=_GIT, path="spec.ref", why=_REVISION),
    Unjudged(holder=_OCI, path="spec.ref", why=_REVISION),
    Unjudged(holder=_GIT, path="spec.include[].repository", why=_CONTENT),
    Unjudged(holder=_HELM, path="spec.passCredentials", why=_FLAG),
    Unjudged(holder=_CHART, path="spec.sourceRef", why=_CONTENT),
    Unjudged(
        holder=(_SOURCE, "ExternalArtifact"),
        path="spec.sourceRef",
        why="tells what was done; nothing is looked up by it",
    ),
    Unjudged(holder=_GENERATOR, path="spec.artifacts[]", why=_BUILT),
    Unjudged(
        holder=(_NOTIFICATION, "Alert"),
        path="spec.providerRef",
        why="events go only to the address that the writer of the Provider chose",
    ),
    Unjudged(holder=_RECEIVER, path="spec.oidcProviders[].variables[]", why=_CHOICE),
    Unjudged(holder=_AUTOMATION, path="spec.git.checkout.ref", why=_REVISION),
    Unjudged(
        holder=_AUTOMATION,
        path="spec.git.commit.author",
        why="the name of a person, not of an object",
    ),
    Unjudged(
        holder=("policy.penstock.dev", "ReferenceGrant"),
        path="spec.to[]",
        why="allows a reference and reads nothing",
    ),
)


def named(obj: Json, own: str) -> Iterator[Named]:
    """Yield every Secret that an object of the namespace ``own`` names, in any version."""
    holder = gvk_of(obj).group_kind
    for field in SECRETS:
        if field.holder != holder:
            continue
        elsewhere = dig(obj, *field.beside.split(".")) if field.beside else None
        for path, entry in fieldpaths.objects(obj, field.path):
            if entry and entry.get("kind", "Secret") == "Secret":
                yield Named(
                    path=path,
                    namespace=str(elsewhere or own),
                    name=str(entry.get("name") or ""),
                    listed=path.rpartition("[")[0],
                )
