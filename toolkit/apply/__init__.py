"""How rendered objects reach a cluster, stay as they were applied, become healthy and go away."""
