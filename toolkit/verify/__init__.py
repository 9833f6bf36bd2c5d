"""Verify signatures of fetched content: one module or package per kind of signature.

Verification raises; it never returns a bool.
"""
