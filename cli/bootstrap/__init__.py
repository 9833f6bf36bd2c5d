"""Install Penstock from a Git repository: commit the installation, apply it, and follow it.

``bootstrapping`` has the order of the steps. ``access`` chooses the credentials for the repository,
``files`` makes its files, ``committing`` pushes them, ``syncing`` makes the cluster follow it, and
``hosts`` are the services that create repositories and deploy keys.
"""
