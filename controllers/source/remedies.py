"""The field to correct when a server refuses what a source asks for.

The clients of ``toolkit.remote`` do not know for which object they work, so their messages say what
failed. These functions say what the author of the object can do. An empty text means that the
message says it already, or that nothing in the object is wrong.
"""

from typing import Final

from crds.meta import LocalObjectReference
from crds.source import GitRepository
from crds.source_helm import HelmRepository
from crds.source_oci import OCIRepository
from toolkit.errors import PenstockError
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.git.errors import (
    GitError,
    GitLoginError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from toolkit.remote.oci.errors import RegistryAuthError, RegistryError, RegistryNotFoundError

_LOGIN: Final = "name a Secret with credentials in spec.secretRef"
_LOGIN_STATUSES: Final = frozenset({401, 403})
_NO_TLS: Final = "does not speak TLS"


def of_git(obj: GitRepository, error: GitError) -> str:
    """Return what to correct in a GitRepository."""
    if isinstance(error, GitLoginError):
        keys = "has 'username' and 'password', or 'bearerToken', as the server wants them"
        return _login(obj.spec.secret_ref, keys)
    if isinstance(error, RepositoryNotFoundError):
        private = "" if obj.spec.secret_ref else "; a private one needs spec.secretRef"
        return f"correct spec.url{private}"
    if isinstance(error, RefNotFoundError):
        if obj.spec.ref is None:
            return "set spec.ref.branch, because the default is master"
        return "correct spec.ref"
    return ""


def of_oci(obj: OCIRepository, error: RegistryError) -> str:
    """Return what to correct in an OCIRepository."""
    if isinstance(error, RegistryNotFoundError):
        return "correct spec.ref or spec.url"
    if isinstance(error, RegistryAuthError) and error.status in _LOGIN_STATUSES:
        keys = "has a login of this registry in .dockerconfigjson"
        return _login(obj.spec.secret_ref, keys)
    return "set spec.insecure if the registry has no TLS" if _NO_TLS in str(error) else ""


def of_charts(obj: HelmRepository, error: PenstockError) -> str:
    """Return what to correct in a HelmRepository."""
    if isinstance(error, AuthError) and error.status in _LOGIN_STATUSES:
        keys = "has 'username' and 'password' as the server wants them"
        return _login(obj.spec.secret_ref, keys)
    if isinstance(error, HttpError) and error.status == 404:
        return "correct spec.url, below which the server has index.yaml"
    return "write http:// if the server has no TLS" if _NO_TLS in str(error) else ""


def _login(secret: LocalObjectReference | None, keys: str) -> str:
    return f"check that the Secret '{secret.name}' {keys}" if secret else _LOGIN
