"""Authentication and authorization of requests, both delegated to the API server."""
