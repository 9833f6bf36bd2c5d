"""``penstock migrate``: move manifests and stored objects to the newest API version.

``storing`` rewrites the objects of a cluster, and ``rewriting`` changes files; ``targets`` has the
newest version for each Flux version. Open ``targets`` first. Moving a cluster from Flux is
``cli.migrating``.
"""
