"""``artifacts``: the stored content of every source, who signed it, and its files."""
