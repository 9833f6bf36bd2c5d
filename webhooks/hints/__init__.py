"""Hints: warnings about probable mistakes; they never refuse a request."""
