"""``artifacts``: the stored content of every source, its signers, and its files."""
