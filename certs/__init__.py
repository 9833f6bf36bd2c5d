"""Who we are on TLS: mint, rotate, reload, and tell the API server whom to trust."""
