"""Builds of Kustomizations from local files, and their differences from the cluster."""
