"""Validation of ArtifactGenerators: globs, path patterns, and limits."""
