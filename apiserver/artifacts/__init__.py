"""``artifacts``: what is stored for every source, who vouches for it, and what is in it."""
