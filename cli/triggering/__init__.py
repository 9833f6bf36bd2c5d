"""A request to a Receiver as its sender would make it; open ``proof`` first.

Input: the Receiver's type, its token and the options. Output: one request, which is retried while
the endpoint cannot be reached. No objects are written.
"""
