"""The Kustomization controller: build a revision, apply it, correct drift, and prune.

Open ``kustomization`` first.
"""
