"""Metrics of the aggregated API."""

from typing import Final

import prometheus_client

REQUESTS: Final = prometheus_client.Histogram(
    "penstock_apiserver_request_duration_seconds",
    "Time from a request to the end of its answer; watches are not in it.",
    ("verb", "resource", "subresource", "code"),
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
WATCHES: Final = prometheus_client.Gauge("penstock_apiserver_watches", "Watches that are open.")
PANICS: Final = prometheus_client.Counter(
    "penstock_apiserver_panics_total", "Requests that failed by a bug of ours."
)
REGISTERED: Final = prometheus_client.Gauge(
    "penstock_apiserver_registered", "Whether this replica has registered the API."
)
AVAILABLE: Final = prometheus_client.Gauge(
    "penstock_apiserver_available", "Whether the API server finds the registered API available."
)
