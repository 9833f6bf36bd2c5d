"""Which artifacts an object's status may name."""

import pytest

from crds.meta import Artifact
from toolkit.artifact.belonging import require_own
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError

STORE = "http://source-controller.flux-system.svc.cluster.local."
MINE = Owner(kind="ExternalArtifact", namespace="tenant", name="mine")
REPOSITORY = Owner(kind="GitRepository", namespace="tenant", name="mine")


def artifact(url: str) -> Artifact:
    return Artifact(
        digest=f"sha256:{'0' * 64}", last_update_time="", path="", revision="1", url=url
    )


@pytest.mark.parametrize(
    ("owner", "path"),
    [
        (MINE, "/externalartifact/tenant/mine/1.tar.gz"),
        (MINE, "/behind/a/proxy/externalartifact/tenant/mine/1.tar.gz"),
        (MINE, "/1.tar.gz"),
        (MINE, "/rows/tenant/mine/1.tar.gz"),
        (MINE, "/releases/v1/download/rows/bucket/1.tar.gz"),
        (REPOSITORY, "/gitrepository/tenant/mine/1.tar.gz"),
    ],
)
def test_object_may_name_its_own_artifact(owner: Owner, path: str) -> None:
    require_own(artifact(STORE + path), owner)


@pytest.mark.parametrize(
    "path",
    [
        "/gitrepository/victim/private/1.tar.gz",
        "/gitrepository/tenant/other/1.tar.gz",
        "/externalartifact/victim/mine/1.tar.gz",
        "/externalartifact/tenant/other/1.tar.gz",
        "/GitRepository/victim/private/1.tar.gz",
        "/%67itrepository/victim/private/1.tar.gz",
        "/gitrepository%2Fvictim%2Fprivate%2F1.tar.gz",
        "//gitrepository//victim/private/1.tar.gz",
        "/gitrepository/victim/private/1.tar.gz/",
        "/externalartifact/tenant/mine/../../../gitrepository/victim/private/1.tar.gz",
        "/externalartifact/tenant/mine/%2e%2e/%2e%2e/%2e%2e/gitrepository/victim/private/1.tar.gz",
        "/gitrepository/victim/private/1.tar.gz?externalartifact/tenant/mine/1.tar.gz",
        "/gitrepository/victim/private/1.tar.gz#/externalartifact/tenant/mine/1.tar.gz",
        "/prefix/gitrepository/victim/private/latest.tar.gz",
    ],
)
def test_third_party_cannot_name_a_neighbours_artifact(path: str) -> None:
    with pytest.raises(TransientError, match=r"ExternalArtifact 'tenant/mine' .* another object"):
        require_own(artifact(STORE + path), MINE)


@pytest.mark.parametrize("path", ["/", "/1.tar.gz", "/rows/tenant/mine/1.tar.gz"])
def test_what_is_ours_has_the_form_of_the_store(path: str) -> None:
    with pytest.raises(TransientError, match="another object"):
        require_own(artifact(STORE + path), REPOSITORY)


def test_address_that_is_none_is_refused() -> None:
    with pytest.raises(TransientError, match="cannot be read"):
        require_own(artifact("http://host:port/x"), MINE)
