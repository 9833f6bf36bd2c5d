"""Inventories: the objects of every applier, their health, and their drift."""
