"""What a Kustomization would make of the files on this machine, and how that differs."""
