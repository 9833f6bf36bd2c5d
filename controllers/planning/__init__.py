"""Plans of every kind of applier: who may ask for one, and what it tells.

A question enters by HTTP (``server``), a ``Plan`` leaves (``plans``). What makes it is the
applier's own module, from the stages of its passes. Open ``server`` first.
"""
