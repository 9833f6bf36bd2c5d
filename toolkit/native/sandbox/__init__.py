"""What a worker process may do: in goes a ``Confinement``, out comes a process that keeps to it.

Open ``entering.py`` first: it numbers the steps.
"""
