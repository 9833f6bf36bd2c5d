"""Delivery of events from the spool, concurrently for all Providers; open ``sender`` first."""
