"""What objects own, down to Pods: bounded reading of one cluster with the rights of one client.

Objects with their uids go in; the tree below each of them comes out. ``growing`` goes down level by
level, ``pages`` reads one kind of one namespace. Open ``growing`` first.
"""
