"""``penstock migrate``: manifests and stored objects in the newest version of their API.

``storing`` writes the objects of a cluster anew, and ``rewriting`` changes files; ``targets`` says
which version is the newest for whom. Open ``targets`` first. Nothing here moves a cluster from Flux
(``cli.migrating``).
"""
