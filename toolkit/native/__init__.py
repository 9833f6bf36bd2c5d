"""The only door to native code: worker processes, and the engine that they load."""
