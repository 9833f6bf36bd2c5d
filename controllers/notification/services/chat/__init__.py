"""Rooms where people talk."""
