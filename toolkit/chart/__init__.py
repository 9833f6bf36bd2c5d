"""Helm charts as sources: indexes, versions, packages, values files, dependencies."""
