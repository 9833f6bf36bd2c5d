"""How an ArtifactGenerator's artifacts are made: validated, planned, and built in a worker."""
