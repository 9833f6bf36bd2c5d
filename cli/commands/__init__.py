"""The verbs of ``penstock``; this table is the order in which help lists them.

A module is imported when one of its verbs is asked for: a command loads what it needs alone.
"""

from collections.abc import Mapping
from typing import Final

MODULES: Final[Mapping[str, str]] = {
    # what is there
    "get": "get",
    "tree": "tree",
    "trace": "trace",
    "events": "events",
    "logs": "logs",
    # what would be there
    "build": "build",
    "diff": "build",
    "check": "check",
    # encrypted Secrets, without a Kustomization
    "seal": "seal",
    "apply": "apply",
    "secrets": "secrets",
    # what to do now
    "reconcile": "reconcile",
    "suspend": "suspend",
    "resume": "suspend",
    # in a cluster
    "bootstrap": "bootstrap",
    "install": "install",
    "uninstall": "install",
    "version": "version",
    # all of it on this machine
    "up": "up",
    "down": "up",
    "status": "up",
}
"""The module below ``cli.commands`` that has a function of the verb's name."""
