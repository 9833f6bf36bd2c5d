"""What a repository holds of an installation."""

from dataclasses import replace

import pytest
import yaml

from cli.bootstrap import files
from cli.bootstrap.files import Sync
from cli.errors import UsageError

SYNC = Sync(
    namespace="flux-system",
    url="https://git.example.com/fleet",
    branch="main",
    path="clusters/prod",
    secret="flux-system",
    interval="60s",
)
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("", ""),
        (".", ""),
        ("/", ""),
        ("./", ""),
        ("clusters/prod", "clusters/prod"),
        ("./clusters/prod/", "clusters/prod"),
        ("/clusters//prod", "clusters/prod"),
    ],
)
def test_a_path_is_taken_from_the_root(said: str, path: str) -> None:
    assert files.cleaned(said) == path


def test_a_path_out_of_the_repository_is_refused() -> None:
    with pytest.raises(UsageError, match="points outside the repository"):
        files.cleaned("clusters/../../etc")


def test_files_have_the_names_that_flux_gives_them() -> None:
    made = files.render([OBJECT], SYNC)

    folder = "clusters/prod/flux-system"
    assert [(file.path, file.keep) for file in made] == [
        (f"{folder}/gotk-components.yaml", False),
        (f"{folder}/gotk-sync.yaml", False),
        (f"{folder}/kustomization.yaml", True),
    ]
    assert list(yaml.safe_load_all(made[0].content)) == [OBJECT]
    assert yaml.safe_load(made[2].content)["resources"] == [
        "gotk-components.yaml",
        "gotk-sync.yaml",
    ]


def test_the_root_of_a_repository_has_them_in_the_namespaces_folder() -> None:
    made = files.render([], replace(SYNC, path=""))

    assert made[0].path == "flux-system/gotk-components.yaml"
    _, applied = yaml.safe_load_all(made[1].content)
    assert applied["spec"]["path"] == "./"


def test_the_cluster_follows_the_branch_with_the_secret() -> None:
    source, applied = SYNC.objects()

    assert (
        source["metadata"]
        == applied["metadata"]
        == {
            "name": "flux-system",
            "namespace": "flux-system",
        }
    )
    assert source["spec"] == {
        "interval": "60s",
        "ref": {"branch": "main"},
        "url": "https://git.example.com/fleet",
        "secretRef": {"name": "flux-system"},
    }
    assert applied["spec"]["path"] == "./clusters/prod"
    assert applied["spec"]["prune"] is True
    assert applied["spec"]["sourceRef"] == {"kind": "GitRepository", "name": "flux-system"}


def test_no_secret_is_named_where_there_is_none() -> None:
    source, _ = replace(SYNC, secret="").objects()

    assert "secretRef" not in source["spec"]
