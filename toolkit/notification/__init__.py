"""What the gate and the process that sends events both know of services; see ``demands``."""
