"""Services that host Git repositories: where their APIs are, and pull requests in them.

``services`` is a table with a row a service, ``pulls`` finds, opens, updates and closes a pull
request the same way at each of them. Open ``services`` first.
"""
