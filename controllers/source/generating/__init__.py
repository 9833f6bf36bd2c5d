"""Generate the artifacts of an ArtifactGenerator: validate, plan, and build in a worker."""
