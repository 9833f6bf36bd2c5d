"""The runtime: how every process talks to the API server and runs its reconcilers."""
