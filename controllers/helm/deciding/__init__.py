"""What a release is, what to do about it, and how that is told: pure functions over the object.

A spec, a status and a record enter; states, decisions, options and texts leave. Open ``decisions``
first.
"""
