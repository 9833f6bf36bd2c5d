"""What appliers have applied, here and on other clusters, read with the rights of the user.

``gathering`` is ``penstock tree``: it follows inventories, and asks the aggregated API what it
knows of the objects. ``owned`` reads what it does not tell. ``observing`` completes the inventories
of ``penstock get inventories`` with objects of other clusters, which ``entering`` enters. Open
``gathering`` first. Nothing here prints.
"""
