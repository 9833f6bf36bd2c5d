"""Hosts of Git repositories: the state of commits, comments, workflows."""
