"""Reconcile one release: observe, decide, act, wait for health, and correct drift.

Input: all inputs of one reconciliation (``work``). Output: an outcome or an error, and changes of
status, conditions and events. Open ``releasing`` first.
"""
