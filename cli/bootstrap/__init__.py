"""Penstock from a Git repository: commit the installation, install it, have Git apply it.

``bootstrapping`` is the order of the steps. ``access`` decides how to reach the repository,
``files`` what is in it, ``committing`` brings it there, ``syncing`` has the cluster follow it, and
``hosts`` are the services that make repositories and deploy keys.
"""
