"""OCI registries: references, tokens, manifests and blobs; blobs are verified while they stream."""
