"""Clients for remote servers; one protocol per package."""
