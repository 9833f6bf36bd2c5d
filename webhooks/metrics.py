"""Metrics of admission: per plugin and decision, never per object or user."""

from typing import Final

import prometheus_client as prom

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

REVIEWS: Final = prom.Histogram(
    "penstock_admission_duration_seconds",
    "How long a review took, the wait for a place included.",
    ("plugin", "operation", "decision"),
    buckets=_BUCKETS,
)
"""``decision`` is allowed, changed, denied, unavailable, timeout, overloaded or failed."""
DENIALS: Final = prom.Counter(
    "penstock_admission_denials", "Requests that were denied.", ("plugin", "code")
)
IN_FLIGHT: Final = prom.Gauge(
    "penstock_admission_in_flight", "Reviews that hold a place.", ("plugin",)
)
WAITING: Final = prom.Gauge(
    "penstock_admission_waiting", "Reviews that wait for a place.", ("plugin",)
)
REFUSED: Final = prom.Counter(
    "penstock_admission_refused", "Calls that are not admission reviews.", ("reason",)
)
ARMED: Final = prom.Gauge(
    "penstock_admission_armed",
    "Whether the API server is told to ask (1), or somebody has taken that back (0).",
    ("configuration",),
)
"""``configuration`` is the kind of the object that registers the webhook."""
CONVERSIONS: Final = prom.Histogram(
    "penstock_conversion_duration_seconds",
    "How long a conversion review took, all its objects together.",
    ("outcome",),
    buckets=_BUCKETS,
)
"""``outcome`` is converted or failed."""
UNCONVERTED: Final = prom.Counter(
    "penstock_conversion_failures", "Objects that could not be converted.", ("kind",)
)
"""``kind`` is one of Penstock's, or ``unknown``: clients may send any text."""
