"""Policy decisions for admission and reconcilers: references, sources, provenance, tenancy."""
