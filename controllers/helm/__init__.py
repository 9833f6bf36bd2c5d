"""The HelmRelease controller: release charts, keep releases in sync, and repair failed ones.

A reconciliation gathers its inputs (here), observes Helm's storage and the cluster, decides on one
action (``deciding``), runs it and observes again (``running``). Open ``helmrelease`` first.
"""
