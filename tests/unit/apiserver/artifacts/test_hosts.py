"""Only hosts that the operator names are asked, and only for the object's own artifact."""

import pytest

from apiserver.artifacts import hosts
from apiserver.artifacts.hosts import Hosts
from apiserver.status import StatusError
from tests.unit.apiserver.artifacts.scene import held

HERE = "/gitrepository/apps/web/a.tar.gz"
ALLOWED = Hosts.of(("Store.example.", "127.0.0.1:9090", "[::1]:9090", " ", ""))


@pytest.mark.parametrize(
    "address",
    [
        "http://store.example",
        "http://STORE.example.:80",
        "http://127.0.0.1:9090",
        "http://[::1]:9090",
    ],
)
def test_a_named_host_is_asked(address: str) -> None:
    assert ALLOWED.require(held(url=address + HERE)) == address + HERE


@pytest.mark.parametrize(
    "address",
    [
        "http://other.example",
        "http://store.example:81",
        "http://store.example.evil.example",
        "http://evil.example/store.example",
        "http://store.example@evil.example",
        "http://evil.example#store.example",
        "http://evil.example?store.example",
        "http://evil.example\\store.example",
        "http://store.example:80@evil.example",
        "http://127.0.0.1",
        "http://0x7f000001:9090",
        "http://[::ffff:127.0.0.1]:9090",
        "file://store.example",
        "ftp://store.example",
        "//store.example",
        "http://store.example:x",
        "http://store.example\n",
        "http://[",
        "",
    ],
)
def test_no_other_host_is(address: str) -> None:
    with pytest.raises(StatusError) as caught:
        ALLOWED.require(held(url=address + HERE))

    assert caught.value.code == 403
    assert not ALLOWED.has(address + HERE)


@pytest.mark.parametrize(
    "path",
    [
        "/gitrepository/apps/other/a.tar.gz",
        "/gitrepository/apps/web/../other/a.tar.gz",
        "/gitrepository/apps/web/%2e%2e/other/a.tar.gz",
        "/gitrepository/b/web/a.tar.gz",
        "/a.tar.gz",
    ],
)
def test_no_neighbours_artifact_is_fetched(path: str) -> None:
    with pytest.raises(StatusError, match="of another object"):
        ALLOWED.require(held(url=f"http://store.example{path}"))


def test_a_third_partys_server_may_be_named() -> None:
    artifact = held("ExternalArtifact", url="http://store.example/any/where.tgz")

    assert ALLOWED.require(artifact)


def test_an_external_artifact_may_not_name_a_neighbours() -> None:
    artifact = held("ExternalArtifact", url=f"http://store.example{HERE}")

    with pytest.raises(StatusError, match="of another object"):
        ALLOWED.require(artifact)


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(StatusError, match=r"'other.example:81'.*--artifact-hosts"):
        ALLOWED.require(held(url=f"http://other.example:81{HERE}"))


def test_the_usual_host_is_the_source_controllers_service() -> None:
    usual = hosts.own("", "penstock-system")

    for host in (
        "source-controller.penstock-system.svc",
        "source-controller.penstock-system.svc.cluster.local.",
    ):
        assert usual.has(f"http://{host}{HERE}")
    assert not usual.has(f"http://source-controller.apps.svc{HERE}")


def test_every_replica_that_advertises_itself_is_ours() -> None:
    own = hosts.own("127.0.0.1:9090,127.0.0.1:9091", "penstock-system")

    for host in ("127.0.0.1:9090", "127.0.0.1:9091"):
        assert own.has(f"http://{host}{HERE}")
    for host in ("127.0.0.1:9092", "source-controller.penstock-system.svc"):
        assert not own.has(f"http://{host}{HERE}")
