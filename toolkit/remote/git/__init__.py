"""Git without a git program: what a checkout needs, spoken by workers that can be killed."""
