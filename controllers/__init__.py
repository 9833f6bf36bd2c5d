"""When things are done: one reconciler per kind, grouped as the API groups are."""
