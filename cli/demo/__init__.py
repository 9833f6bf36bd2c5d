"""The demo: the main job told as a short story."""
