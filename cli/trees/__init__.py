"""The objects of appliers, here and on other clusters, read with the user's permissions.

``gathering`` is ``penstock tree``: it follows inventories, and reads what the aggregated API has
about the objects. ``owned`` reads other objects. ``observing`` completes the inventories of
``penstock get inventories`` with objects of other clusters, to which ``entering`` connects. Open
``gathering`` first. Nothing here prints.
"""
