"""How bytes move between a remote and this machine; one protocol a package."""
