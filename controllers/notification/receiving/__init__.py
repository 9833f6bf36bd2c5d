"""Requests of others enter here, and objects are reconciled; open ``hooks`` first."""
