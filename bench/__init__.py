"""How fast, how costly: N Kustomizations through their whole life, no matter who reconciles them.

Everything goes through the Kubernetes API and one Git server; whose controllers answer is unknown
here. Times come from a watch, processor time and memory from ``/proc``, requests from metrics.
"""
