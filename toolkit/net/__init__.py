"""Ports that every client can reach: what is accepted there, how much, and how long it may wait."""
