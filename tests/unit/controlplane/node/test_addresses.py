"""Which addresses a node gets."""

from ipaddress import ip_address, ip_network

import pytest

from controlplane.node import addresses


def test_every_address_of_a_node_is_in_its_block() -> None:
    places = addresses.free([])[0]

    block = ip_network(places.block)
    assert all(
        ip_address(each) in block for each in (places.api, places.dns, places.host, places.node)
    )
    assert ip_address(places.api) in ip_network(places.services)
    assert not ip_network(places.pods).overlaps(ip_network(places.services))


@pytest.mark.parametrize("taken", ["10.176.0.0/16", "10.176.3.0/24", "10.176.0.9", "10.176.0.0/15"])
def test_block_that_a_route_leads_to_is_left_alone(taken: str) -> None:
    free = addresses.free(["default", taken])

    assert not any(ip_network(each.block).overlaps(ip_network(taken)) for each in free)
    assert free


def test_machine_that_routes_the_whole_network_has_no_block() -> None:
    assert addresses.free(["10.0.0.0/8"]) == ()
