"""Events out, announcements in.

An event enters at ``events.endpoint``, is matched with Alerts (``events.intake``) and waits in the
spool (``events.spool``) until ``sending.sender`` has given it to the service of its Provider, in
the format of its row in ``services``. An announcement enters at ``receiving.hooks`` and leaves as
an annotation of the objects that it concerns. Open ``component`` first.
"""
