"""How objects sign in at registries and Git servers: what kinds of several components share.

An object's names of Secrets and accounts go in, an opened registry (``registries``) or credentials
for a repository (``gitaccess``) come out. Open ``registries`` first.
"""
