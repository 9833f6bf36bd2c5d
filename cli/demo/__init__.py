"""The demo: the main tasks as a short story."""
