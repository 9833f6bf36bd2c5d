"""What may enter: admission plugins, conversion, and the server that the API server asks."""
