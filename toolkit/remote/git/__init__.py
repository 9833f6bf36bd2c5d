"""Git without a git program, for checkouts and pushes, in workers that can be killed."""
