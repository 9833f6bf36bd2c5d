"""The HelmRelease controller: release a chart with values, keep it so, and repair what failed.

A pass gathers what it needs (here), observes Helm's storage and the cluster, decides (``deciding``)
and acts once, and observes again (``running``). Open ``helmrelease`` first.
"""
