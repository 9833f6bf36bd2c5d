"""Artifacts: tarballs of a revision, bit-for-bit deterministic, stored, served and fetched."""
