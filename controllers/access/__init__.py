"""Authentication of objects at registries and Git servers, for the kinds of several components.

Input: an object's names of Secrets and accounts. Output: an open registry (``registries``) or
credentials for a repository (``gitaccess``). Open ``registries`` first.
"""
