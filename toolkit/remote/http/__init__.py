"""HTTP to untrusted servers: addresses that are allowed, credentials, and how long to wait."""
