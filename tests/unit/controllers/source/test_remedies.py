"""What the author of a source is told to correct when a server refuses."""

from typing import Any

import msgspec
import pytest

from controllers.source import remedies
from crds.source import GitRepository
from crds.source_helm import HelmRepository
from crds.source_oci import OCIRepository
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.git import errors as git
from toolkit.remote.oci import errors as oci

SECRET = {"secretRef": {"name": "login"}}


def source(model: Any, url: str, **spec: Any) -> Any:
    fields = {"metadata": {"name": "it"}, "spec": {"interval": "1m", "url": url, **spec}}
    return msgspec.convert(fields, model)


@pytest.mark.parametrize(
    ("spec", "error", "told"),
    [
        ({}, git.RefNotFoundError("x"), "set spec.ref.branch, because the default is master"),
        ({"ref": {"branch": "a"}}, git.RefNotFoundError("x"), "correct spec.ref"),
        ({}, git.GitLoginError("x"), "name a Secret with credentials in spec.secretRef"),
        (SECRET, git.GitLoginError("x"), "check that the Secret 'login' has 'username' and"),
        ({}, git.RepositoryNotFoundError("x"), "a private one needs spec.secretRef"),
        (SECRET, git.RepositoryNotFoundError("x"), "correct spec.url"),
        ({}, git.GitError("x"), ""),
        ({}, git.GitAuthError("the proxy requires valid credentials"), ""),
    ],
)
def test_a_git_server_that_refuses(spec: Any, error: git.GitError, told: str) -> None:
    found = remedies.of_git(source(GitRepository, "https://git.example.com/a", **spec), error)

    assert told in found
    assert bool(found) == bool(told)


@pytest.mark.parametrize(
    ("spec", "error", "told"),
    [
        ({}, oci.RegistryNotFoundError("x", status=404), "correct spec.ref or spec.url"),
        ({}, oci.RegistryAuthError("x", status=401), "name a Secret with credentials"),
        (SECRET, oci.RegistryAuthError("x", status=401), "check that the Secret 'login' has a"),
        ({}, oci.RegistryError("the server does not speak TLS (X)"), "set spec.insecure"),
        ({}, oci.RegistryAuthError("an unknown certificate"), ""),
        ({}, oci.RegistryError("x"), ""),
    ],
)
def test_a_registry_that_refuses(spec: Any, error: oci.RegistryError, told: str) -> None:
    found = remedies.of_oci(source(OCIRepository, "oci://ghcr.io/a", **spec), error)

    assert found.startswith(told)
    assert bool(found) == bool(told)


@pytest.mark.parametrize(
    ("spec", "error", "told"),
    [
        ({}, HttpError("x", status=404), "correct spec.url"),
        ({}, AuthError("x", status=401), "name a Secret with credentials"),
        (SECRET, AuthError("x", status=403), "check that the Secret 'login' has 'username'"),
        ({}, HttpError("the server does not speak TLS (X)"), "write http://"),
        ({}, HttpError("x", status=500), ""),
        ({}, AuthError("the proxy requires valid credentials", status=407), ""),
    ],
)
def test_a_chart_repository_that_refuses(spec: Any, error: HttpError, told: str) -> None:
    found = remedies.of_charts(source(HelmRepository, "https://example.com/a", **spec), error)

    assert found.startswith(told)
    assert bool(found) == bool(told)
