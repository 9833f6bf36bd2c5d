"""Ports that anybody may reach: what is accepted there, how much, and how long it may wait."""
