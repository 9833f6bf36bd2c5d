"""Servers on ports that every client can reach: limits of connections, sizes and times."""
