"""Plans for every kind of applier: access, format and masking.

Requests arrive by HTTP (``server``); the answer is a ``Plan`` (``plans``). Each applier has a
module that makes plans with the stages of its reconciliation. Open ``server`` first.
"""
