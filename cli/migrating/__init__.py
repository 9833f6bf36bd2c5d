"""A cluster of Flux is taken over by Penstock, and given back.

What there is enters (``survey``), findings leave (``preflight``, over the rules in ``flags`` and
``pods``). Then ``steps`` are done in their order and undone in reverse, by ``moving``, with what
they must remember in the cluster (``memory``). Open ``steps`` first.
"""
