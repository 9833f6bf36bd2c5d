"""Confine a worker process: apply a ``Confinement`` to the running process.

Open ``entering.py`` first: it numbers the steps.
"""
