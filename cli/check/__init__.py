"""Find objects of a fleet that would be refused here, or handled otherwise than by Flux.

Input: objects from a repository (``files``, ``builds``) or from a cluster (``cluster``). Output:
findings (``judge``), printed by ``report``. The rules are those of the gate. Open ``judge`` first.
"""
