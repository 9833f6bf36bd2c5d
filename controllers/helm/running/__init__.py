"""Bring a release to what was decided: observe, decide, act, wait, and correct.

A pass enters with all that it needs (``work``); an outcome or an error leaves, and status,
conditions and events on the way. Open ``releasing`` first.
"""
