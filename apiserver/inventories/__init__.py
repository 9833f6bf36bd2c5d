"""Inventories: what every applier has applied, its health, and what has been done to it since."""
