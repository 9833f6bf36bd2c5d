"""A Kubernetes control plane as ordinary processes of one user, for demo, tests and bench."""
