"""Files of OpenSSH that name public keys: the lines they share, and ``known_hosts``."""
