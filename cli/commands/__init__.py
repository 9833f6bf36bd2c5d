"""The verbs of ``penstock``, in the order of the help text.

A module is imported only when one of its verbs is used: a command loads only its own modules, and
the help for all verbs loads none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """The module below ``cli.commands`` with a function of the verb's name, and its first line."""

    module: str
    summary: str


VERBS: Final[Mapping[str, Verb]] = {
    # showing objects
    "get": Verb("get", "List objects with their revision, readiness and message."),
    "tree": Verb("tree", "Show what an object has applied, as a tree."),
    "trace": Verb("trace", "Show where objects in the cluster come from."),
    "events": Verb("events", "Show events of Penstock's objects."),
    "stats": Verb(
        "stats", "Count the objects of each kind: running, failing, suspended, and what they store."
    ),
    "debug": Verb("debug", "Show the status, history and inputs of an object; may print Secrets."),
    "logs": Verb(
        "logs",
        "Show the controllers' logs: of the local `penstock up` if it runs, else of the cluster.",
    ),
    # previews of changes
    "build": Verb("build", "Build local files as the controller would."),
    "diff": Verb("build", "Show what applying local files, or a stored revision, would change."),
    "preview": Verb("preview", "Show the commit that an ImageUpdateAutomation would push."),
    "check": Verb("check", "Check an installation, or find manifests that would be refused."),
    "envsubst": Verb("envsubst", "Replace variables in standard input as post builds do."),
    # artifacts in registries: GitOps without Git
    "push": Verb("push", "Push local files to a registry as an artifact, and sign it."),
    "pull": Verb("artifacts", "Pull an artifact from a registry, and write its files here."),
    "tag": Verb("artifacts", "Move tags to an artifact: promote it, or roll back to it."),
    "list": Verb("artifacts", "List the artifacts of a repository in a registry."),
    # encrypted Secrets, without a Kustomization
    "seal": Verb("seal", "Encrypt a Secret for the holders of age keys."),
    "apply": Verb(
        "apply", "Apply manifests server-side; SOPS-encrypted Secrets are decrypted at admission."
    ),
    "secrets": Verb(
        "secrets", "List Secrets that are decrypted at admission, and their recipients."
    ),
    # objects, from flags and to manifests
    "create": Verb("create", "Create or update an object, or print it with --export."),
    "export": Verb("export", "Print objects as manifests for a repository."),
    "delete": Verb(
        "delete",
        "Delete an object; objects that a Kustomization or HelmRelease applied go with it.",
    ),
    # requests to controllers
    "reconcile": Verb("reconcile", "Fetch or apply now, and wait until it is done."),
    "suspend": Verb("suspend", "Stop reconciling; applied objects stay."),
    "resume": Verb("suspend", "Resume reconciling, and wait until the object is ready."),
    "trigger": Verb("trigger", "Call a Receiver as its sender would."),
    # in a cluster
    "bootstrap": Verb("bootstrap", "Install Penstock from a Git repository that it then follows."),
    "install": Verb(
        "install", "Install Penstock in a cluster, or change or upgrade an installation."
    ),
    "uninstall": Verb("install", "Remove Penstock from a cluster; applied objects stay."),
    "migrate": Verb(
        "migrate", "Migrate to the newest API versions, or take a cluster over from Flux."
    ),
    "version": Verb(
        "version", "Print the version of this command, and of each component in a cluster."
    ),
    "completion": Verb(
        "completion", "Print a script for shell completion of commands and options."
    ),
    # on this machine
    "up": Verb(
        "up", "Run Penstock here, each component as a process with its own service account."
    ),
    "down": Verb(
        "up", "Stop everything that `penstock up` started, including the embedded control plane."
    ),
    "status": Verb("up", "Show what `penstock up` runs; exit code 1 if nothing."),
}
