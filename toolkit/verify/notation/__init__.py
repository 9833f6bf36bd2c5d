"""Signatures as Notation makes them, judged by notation-go in a worker that has no network."""
