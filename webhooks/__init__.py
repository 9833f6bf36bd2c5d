"""The gate: admission plugins, conversion, and the server that the API server calls."""
