"""Rules for Providers, shared by the gate and the notification controller; see ``demands``."""
