"""Command lines and environments of the processes."""

from pathlib import Path

import pytest

from cli.stack import COMPONENTS
from cli.stack.components import Component, Neighbours, Ports

PORTS = Ports(
    metrics=1001, health=1002, storage=1003, webhook=1004, plan=1005, events=1006, hooks=1007
)
SOURCE = next(c for c in COMPONENTS if c.name == "source")
KUSTOMIZE = next(c for c in COMPONENTS if c.name == "kustomize")


def command(component: Component, *, replicas: int = 1, flags: tuple[str, ...] = ()) -> list[str]:
    storage = Path("/state/storage")
    return list(component.command(ports=PORTS, storage=storage, replicas=replicas, flags=flags))


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
def test_every_component_listens_on_loopback_only(component: Component) -> None:
    addresses = [flag for flag in command(component) if "-addr=" in flag]

    assert addresses
    assert all(flag.partition("=")[2].startswith("127.0.0.1:") for flag in addresses)


def test_replicas_elect_a_leader_and_a_single_process_does_not() -> None:
    assert "--enable-leader-election=true" in command(SOURCE, replicas=2)
    assert "--enable-leader-election=false" in command(SOURCE, replicas=1)


def test_artifacts_are_served_by_the_source_component_alone() -> None:
    assert "--storage-adv-addr=127.0.0.1:1003" in command(SOURCE)
    assert not any("storage" in flag for flag in command(KUSTOMIZE))


def test_plans_are_made_where_stored_revisions_can_be_asked_for() -> None:
    words = KUSTOMIZE.command(
        ports=PORTS,
        storage=Path("/s"),
        replicas=1,
        flags=(),
        neighbours=Neighbours(storage=("127.0.0.1:1003", "127.0.0.1:1013")),
    )

    assert {"--plan-addr=127.0.0.1:1005", "--storage-adv-addr=127.0.0.1:1003"} <= set(words)
    assert not any("--plan" in flag for flag in command(SOURCE))


def test_extra_flags_come_last_and_so_win() -> None:
    assert command(KUSTOMIZE, flags=("--concurrent=1",))[-1] == "--concurrent=1"


def test_process_sees_no_cluster_but_the_one_of_its_kubeconfig() -> None:
    base = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": "/admin", "PYTHONPATH": "/mine"}

    env = SOURCE.environment(
        base, root=Path("/root"), kubeconfig=Path("/state/source.yaml"), namespace="ns"
    )

    assert "KUBERNETES_SERVICE_HOST" not in env
    assert env["KUBECONFIG"] == "/state/source.yaml"
    assert env["RUNTIME_NAMESPACE"] == "ns"
    assert env["PYTHONPATH"] == "/root:/mine"


def test_an_api_is_served_at_the_port_that_the_api_server_is_told() -> None:
    (window,) = (component for component in COMPONENTS if component.serves_api)

    words = window.command(
        ports=PORTS,
        storage=Path("/s"),
        replicas=1,
        flags=(),
        neighbours=Neighbours(
            storage=("127.0.0.1:1", "127.0.0.1:3"),
            plans={"helm": "127.0.0.1:4", "kustomize": "127.0.0.1:2"},
        ),
    )

    assert {
        "--secure-addr=127.0.0.1:1004",
        "--apiservice-port=1004",
        "--storage-adv-addr=127.0.0.1:1,127.0.0.1:3",
        "--plan-address=127.0.0.1:2",
        "--helm-plan-address=127.0.0.1:4",
    } <= set(words)


def test_only_what_the_api_server_asks_listens_for_it() -> None:
    for component in COMPONENTS:
        words = component.command(ports=PORTS, storage=Path("/s"), replicas=1, flags=())

        told = [word for word in words if word.startswith("--webhook-")]
        assert told == (
            [
                "--webhook-addr=127.0.0.1:1004",
                "--webhook-url=https://127.0.0.1:1004",
                "--webhook-client-networks=127.0.0.0/8",
            ]
            if component.asked_by_api_server and not component.serves_api
            else []
        )
