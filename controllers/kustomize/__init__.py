"""The Kustomization controller: build a revision, apply it, keep it, prune what left it."""
