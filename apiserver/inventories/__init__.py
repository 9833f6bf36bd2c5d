"""Inventories: what every applier has applied, how it fares, and what has been done to it since."""
