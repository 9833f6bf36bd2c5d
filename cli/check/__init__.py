"""What of a fleet would be refused here, or treated otherwise than by Flux.

Objects enter, from a repository (``files``, ``builds``) or from a cluster (``cluster``); findings
leave (``judge``), and are told (``report``). The rules are those of the gate. Open ``judge`` first.
"""
