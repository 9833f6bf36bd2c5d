"""GitOps without Git: artifacts in a registry, pushed, pulled, tagged, listed, compared and signed.

An address and local files come in; a digest comes out. The forms are Flux's (``document``), so that
either tool reads what the other pushed. Open ``pushing`` first.
"""
