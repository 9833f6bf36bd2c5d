"""Deliveries leave the spool here, one Provider beside the other; open ``sender`` first."""
