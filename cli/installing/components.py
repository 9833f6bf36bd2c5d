"""The names of the components, which help lists without reading their manifests."""

from typing import Final

NAMES: Final = (
    "sharding",
    "ha",
    "monitoring",
    "persistent-events",
    "cert-manager",
    "decryption",
    "workload-identity",
    "by-namespace",
    "warn-cross-namespace-refs",
    "lockdown",
    "dev",
)
"""What can be added to the base, in the order of an overlay: some change what others bring."""
