"""``penstock tree``: from an applier to its objects, and on to what these own.

``gathering`` follows inventories, and asks the aggregated API what it knows of the objects.
``owned`` reads the rest with the rights of the user: in other namespaces, on other clusters, and
where no aggregated API is. Open ``gathering`` first. Nothing here prints.
"""
