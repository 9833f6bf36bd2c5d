"""Who made what was fetched: one kind of signature a module or package.

Verification raises; it never returns a bool.
"""
