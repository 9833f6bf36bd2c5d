"""A request to a Receiver as its sender would make it; open ``proof`` first.

In come the Receiver's type, its token and what the user said; out goes one request, which is sent
again while the endpoint cannot be reached. No objects are written.
"""
