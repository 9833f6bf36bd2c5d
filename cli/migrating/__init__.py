"""Take a cluster over from Flux, and give it back.

Input: the state of the cluster (``survey``). Output: findings (``preflight``, with the rules in
``flags`` and ``pods``). Then ``moving`` does the ``steps`` in order, or undoes them in reverse, and
stores the data for undoing them in the cluster (``memory``). Open ``steps`` first.
"""
