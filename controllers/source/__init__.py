"""Sources: what is fetched, verified and offered as an artifact, one module per kind."""
