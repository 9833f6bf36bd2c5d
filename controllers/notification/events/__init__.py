"""Events come in here, and leave as deliveries in the spool; open ``intake`` first."""
