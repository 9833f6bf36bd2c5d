"""Code shared by the controllers that apply objects: accounts, clusters, waits, deletion, reports.

Input: a Kustomization or HelmRelease as an ``applier``, and the objects that it applied. Output:
the client to act with (``identity``), the cluster with its watches (``clusters``), and conditions
and events (``reporting``). This package does not build objects: each kind has its own package for
that, which uses this one but not the other kind's. Open ``clusters`` first.
"""
