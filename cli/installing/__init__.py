"""Install, inspect and remove Penstock in a cluster from the command line.

``manifests`` builds the chosen installation, ``writing`` applies it, ``removing`` removes it, and
``inspection`` checks it.
"""
