"""Whether a Secret or ConfigMap has the content that a field needs, as reconcilers parse it.

Pure. Messages name keys, never values: users who get them may read the Secret.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from crds.helm import HelmRelease
from crds.image import ImageRepository
from crds.image_automation import ImageUpdateAutomation
from crds.kustomize import Kustomization
from crds.notification import Provider
from crds.source import GitRepository
from crds.source_bucket import Bucket
from crds.source_helm import HelmRepository
from crds.source_oci import OCIRepository
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.kms import logins
from toolkit.errors import PenstockError, TransientError
from toolkit.kube import config, remote
from toolkit.notification import demands
from toolkit.policy import imagereference
from toolkit.remote import proxy, tls
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.git import signingkeys as signing
from toolkit.remote.git.git import GitAuth
from toolkit.remote.git.github import GitHubApp
from toolkit.remote.git.url import GitUrl
from toolkit.remote.objectstore import secret
from toolkit.remote.oci import dockerconfig
from toolkit.remote.oci.oci import Repository
from toolkit.remote.proxy import Proxy
from toolkit.render import substitute
from toolkit.verify import git
from toolkit.verify.cosign import cosign
from toolkit.verify.notation import notation
from webhooks.validation.rule import WithSpec
from webhooks.validation.signing import Signed

Data = Mapping[str, bytes]
Read = Callable[[Any, Data], object]
"""Reads a Secret's data for an object, and raises ``PenstockError`` if the data are invalid."""


def problem(kind: str, path: str, obj: object, data: Data) -> str:
    """Return the problem of a Secret for the field at ``path``; empty if there is none."""
    read = READERS.get((kind, path))
    if read is None:
        return ""
    try:
        read(obj, data)
    except PenstockError as exc:
        return str(exc)
    return ""


def _git(obj: GitRepository, data: Data) -> None:
    provider = obj.spec.provider
    if provider == "github":
        GitHubApp.from_secret(data)
    elif provider == "generic":
        if "githubAppID" in data:
            raise TransientError("it holds a GitHub App, which needs spec.provider 'github'")
        scheme = GitUrl.parse(obj.spec.url).scheme
        auth = GitAuth.from_secret(data, scheme=scheme)
        if scheme == "ssh":
            _require_all(auth.hosts().skipped)


def _proxy(_: object, data: Data) -> None:
    Proxy.from_secret(data)


def _certificates(_: object, data: Data) -> None:
    tls.certified(Endpoint(), data, "")


def _keys(_: object, data: Data) -> None:
    if not data:
        raise TransientError("it holds no keys")
    _require_all(git.skipped(data))


def _require_all(skipped: Sequence[str]) -> None:
    if skipped:
        raise TransientError("; ".join(skipped))


def _login(repository: Repository, data: Data) -> None:
    if "username" in data and dockerconfig.CONFIG_JSON not in data:
        _pair(data)
    else:
        dockerconfig.login([data], repository)


def _pair(data: Data) -> None:
    given = [name for name in ("username", "password") if proxy.text(data, name)]
    if len(given) == 1:
        raise TransientError(f"it has '{given[0]}' alone: both of username and password are needed")


def _registry(obj: OCIRepository, data: Data) -> None:
    _login(Repository.parse(obj.spec.url), data)


def _helm(obj: HelmRepository, data: Data) -> None:
    if obj.spec.type == "oci":
        _login(Repository.parse(f"{obj.spec.url.rstrip('/')}/chart"), data)
    else:
        _pair(data)


def _bucket(obj: Bucket, data: Data) -> None:
    secret.credentials(obj.spec.provider, data)


def _directory(obj: Bucket, data: Data) -> None:
    endpoint = obj.spec.sts.endpoint if obj.spec.sts else ""
    secret.ldap(endpoint, data, secret.Trust())


def _signers(obj: WithSpec[Signed], data: Data) -> None:
    if obj.spec.verify and obj.spec.verify.provider == "notation":
        notation.Policy.from_secret(data)
    else:
        cosign.Policy.from_secret(data)


def _root(_: object, data: Data) -> None:
    cosign.Policy.keyless([("^x$", "^x$")], data)


def _decryption(_: object, data: Data) -> None:
    logins.from_secret(data)
    ring = KeyRing.from_secret(data)
    _require_all([f"{key} (skipped)" for key in ring.skipped])


def _kubeconfig(obj: Kustomization | HelmRelease, data: Data) -> None:
    named = obj.spec.kube_config.secret_ref if obj.spec.kube_config else None
    text = remote.kubeconfig(data, named.key if named else "", named.name if named else "")
    config.from_untrusted_kubeconfig(text.decode(errors="replace"), allow_insecure_tls=True)


def _image(obj: ImageRepository, data: Data) -> None:
    _login(imagereference.parse(obj.spec.image).repository, data)


def _provider(obj: Provider, data: Data) -> None:
    given = [key for key, value in data.items() if value.strip()]
    if why := demands.unsigned(obj.spec.type, given):
        raise TransientError(why)
    if demands.APP in given and "token" not in given:
        GitHubApp.from_secret(data)
    address = proxy.text(data, "address") or obj.spec.address
    if obj.spec.service_account_name and ("token" in given or demands.has_key(address)):
        raise TransientError(
            "it has credentials, and spec.serviceAccountName is set: remove one of them"
        )


def _signing(obj: ImageUpdateAutomation, data: Data) -> None:
    key = obj.spec.git.commit.signing_key if obj.spec.git else None
    if key is not None:
        signing.from_secret(key.type, data)


def _variables(_: object, data: Data) -> None:
    for name in data:
        substitute.require_name(name)


READERS: Final[Mapping[tuple[str, str], Read]] = MappingProxyType(
    {
        ("GitRepository", "spec.secretRef"): _git,
        ("GitRepository", "spec.proxySecretRef"): _proxy,
        ("GitRepository", "spec.verify.secretRef"): _keys,
        ("OCIRepository", "spec.secretRef"): _registry,
        ("OCIRepository", "spec.certSecretRef"): _certificates,
        ("OCIRepository", "spec.proxySecretRef"): _proxy,
        ("OCIRepository", "spec.verify.secretRef"): _signers,
        ("OCIRepository", "spec.verify.trustedRootSecretRef"): _root,
        ("Bucket", "spec.secretRef"): _bucket,
        ("Bucket", "spec.certSecretRef"): _certificates,
        ("Bucket", "spec.proxySecretRef"): _proxy,
        ("Bucket", "spec.sts.secretRef"): _directory,
        ("Bucket", "spec.sts.certSecretRef"): _certificates,
        ("HelmRepository", "spec.secretRef"): _helm,
        ("HelmRepository", "spec.certSecretRef"): _certificates,
        ("HelmChart", "spec.verify.secretRef"): _signers,
        ("HelmChart", "spec.verify.trustedRootSecretRef"): _root,
        ("Kustomization", "spec.decryption.secretRef"): _decryption,
        ("Kustomization", "spec.kubeConfig.secretRef"): _kubeconfig,
        ("Kustomization", "spec.postBuild.substituteFrom[]"): _variables,
        ("HelmRelease", "spec.decryption.secretRef"): _decryption,
        ("ImageRepository", "spec.secretRef"): _image,
        ("ImageRepository", "spec.certSecretRef"): _certificates,
        ("ImageRepository", "spec.proxySecretRef"): _proxy,
        ("ImageUpdateAutomation", "spec.git.commit.signingKey.secretRef"): _signing,
        ("HelmRelease", "spec.kubeConfig.secretRef"): _kubeconfig,
        ("Provider", "spec.secretRef"): _provider,
        ("Provider", "spec.certSecretRef"): _certificates,
        ("Provider", "spec.proxySecretRef"): _proxy,
    }
)
"""By kind and path of the field that names the Secret (``Named.path``)."""
