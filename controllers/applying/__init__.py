"""What controllers that apply objects share: from the account that acts to the wait for health.

In go an object that says how it is applied (``applier``) and what it applied; out come the client
to act with (``identity``), the cluster with its watches (``clusters``), and what users are told
(``reporting``). Nothing here knows how objects are made: that is the kinds', which use these
pieces and never each other. Open ``clusters`` first.
"""
