"""Who made what was fetched: one kind of signature a module, and what each kind of source needs.

Verification raises; it never returns a bool.
"""
