"""Rules that every row of the component table keeps."""

import itertools

import pytest

from controlplane.components import COMPONENTS, Component


def test_port_is_put_in_and_further_flags_replace_the_usual_ones() -> None:
    component = Component(name="x", flags=("--port={port}", "--v=1"))

    arguments = component.arguments({"port": "4711"}, extra=("--v=9",))

    assert arguments == ("--port=4711", "--v=9")


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_component_listens_on_loopback_or_not_at_all(component: Component) -> None:
    flags = dict(flag.partition("=")[::2] for flag in component.flags)
    listening = [value for name, value in flags.items() if name.startswith("--listen")]

    assert flags.get("--secure-port", "0") == "0" or flags["--bind-address"] == "127.0.0.1"
    assert all(url.startswith("unix://") for url in listening)


def test_no_flag_is_given_twice() -> None:
    for component in COMPONENTS:
        names = [flag.partition("=")[0] for flag in component.flags]

        assert len(names) == len(set(names)), component.name


def test_front_proxy_is_trusted_by_another_authority_than_clients_are() -> None:
    flags = dict(
        flag.partition("=")[::2]
        for flag in itertools.chain.from_iterable(each.flags for each in COMPONENTS)
    )

    assert flags["--requestheader-client-ca-file"] != flags["--client-ca-file"]
    assert flags["--requestheader-allowed-names"] != ""
