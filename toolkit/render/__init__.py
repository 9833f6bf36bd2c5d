"""Render files to objects: kustomize builds, variable substitution, and image setters."""
