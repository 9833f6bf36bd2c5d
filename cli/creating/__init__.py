"""Manifests of ``create``: from flags, and their paths in a spec.

``flags`` defines a flag, ``sources`` and ``appliers`` have the rows, one per kind. ``objects``
makes a manifest from a row and the typed flags; ``upserting`` writes it. Open ``sources`` first.
"""
