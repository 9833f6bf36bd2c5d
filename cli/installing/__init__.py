"""Penstock in a cluster: installed, looked at and removed from the command line.

``manifests`` builds what is chosen, ``writing`` brings it there, ``removing`` takes it away, and
``inspection`` tells how it is.
"""
