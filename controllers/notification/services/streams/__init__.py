"""Services that take any event."""
