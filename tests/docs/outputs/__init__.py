"""Outputs that the documents show come from runs of the real commands.

In:  pages with ``<!-- output: NAME -->`` before a code block, and the table of runs (``runs.py``).
Out: what differs in words, or the pages and pictures rewritten. ``make docs`` compares, and
``make docs WRITE=1`` writes. Start with ``comparison.py``.
"""
