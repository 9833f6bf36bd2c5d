"""HTTP to untrusted servers: which addresses are allowed, who gets credentials, how long we wait."""
