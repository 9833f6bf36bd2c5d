"""GitOps without Git: push, pull, tag, list, compare and sign artifacts in a registry.

Input: an address and local files. Output: a digest. The formats are Flux's (``document``), so that
either tool can read artifacts of the other. Open ``pushing`` first.
"""
