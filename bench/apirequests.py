"""How many API requests: of everybody, from the API server; of the controllers, from themselves.

The bench's own requests, which its client counts, are taken off the server's number. A watch is
counted nowhere: it is one request for as long as it lasts.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import aiohttp
import prometheus_client

from toolkit.kube import client

_SERVER: Final = re.compile(
    r'^apiserver_request_total\{[^}]*verb="([A-Z]+)"[^}]*\} (\S+)$', re.MULTILINE
)
_CLIENT: Final = re.compile(r"^rest_client_requests_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_NOT_COUNTED: Final = frozenset({"WATCH", "CONNECT"})


async def by_verb(api: client.Client) -> Mapping[str, float]:
    """Return the server's totals by verb, of all clients."""
    text = (await api.read("/metrics", query={}, accept="text/plain")).decode()
    totals: dict[str, float] = {}
    for verb, value in _SERVER.findall(text):
        if verb not in _NOT_COUNTED:
            totals[verb] = totals.get(verb, 0) + float(value)
    return totals


def our_own() -> float:
    """Return how many requests this process has sent; its few watches are among them."""
    metric = prometheus_client.REGISTRY.collect()
    return sum(
        sample.value
        for family in metric
        if family.name == "rest_client_requests"
        for sample in family.samples
        if sample.name == "rest_client_requests_total"
    )


async def of_controllers(urls: Iterable[str]) -> float:
    """Return the sum of ``rest_client_requests_total`` over metrics endpoints."""
    total = 0.0
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        for url in urls:
            async with session.get(url) as response:
                text = await response.text()
            total += sum(float(value) for _, value in _CLIENT.findall(text))
    return total


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, int]:
    """Return by how much each verb's total grew."""
    grown = {verb: round(value - before.get(verb, 0)) for verb, value in after.items()}
    return {verb: count for verb, count in sorted(grown.items()) if count}
