"""Apply objects to a cluster, correct drift, wait for health, prune, and compare (plans)."""
