"""What can go wrong at the command line itself; errors of the cluster keep their own classes.

::

    PenstockError
    └── CommandError        shown as ``✗ message`` on stderr, exit code 1 (of `diff`: 2)
        ├── UsageError      an argument, a kubeconfig or a file on this machine is wrong
        ├── FailedError     the object says that it failed
        ├── DeadlineError   --timeout passed first
        └── DifferentError  `diff` found differences, `apply` told what failed: exit code 1 and
                            nothing more to say
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from toolkit import errors
from toolkit.kube import errors as kube_errors


class CommandError(errors.PenstockError):
    """A command cannot do what the user asked for."""


class UsageError(CommandError):
    """An argument, a kubeconfig or a file on this machine is wrong."""


class FailedError(CommandError):
    """The object that a command waits for, or a process that it needs, has failed."""


class DeadlineError(CommandError):
    """The time that a command was given has passed."""


class DifferentError(CommandError):
    """There are differences, or objects that would be refused; they have been printed."""


_REMEDIES: Final = (
    (
        kube_errors.NoMatchError,
        "its CustomResourceDefinition is missing: install Penstock, or choose another --context",
    ),
    (
        kube_errors.UnreachableError,
        "check that the cluster is running, and that --kubeconfig or KUBECONFIG selects it",
    ),
    (kube_errors.UnauthorizedError, "renew the credentials of this kubeconfig context"),
    (
        kube_errors.ForbiddenError,
        "ask an administrator for this right, or choose another user with --context",
    ),
    (kube_errors.SignInError, "sign in with that program again, then repeat the command"),
    (
        kube_errors.KubeConfigError,
        "set --kubeconfig or KUBECONFIG to a kubeconfig file, and --context to one of its contexts",
    ),
)


_DENIED: Final = "denied the request"
"""The text of an API server for a denial by an admission webhook or policy (``admission/errors``).
"""


def explain(error: errors.PenstockError) -> str:
    """Return the message with a remedy, if one is known."""
    if isinstance(error, kube_errors.ForbiddenError) and _DENIED in str(error):
        return str(error)  # the gate tells its own remedy, and no right would help
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return f"{error}\n  {remedy}"
    return str(error)


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raise the only error of a task group as itself, so that callers can name its class."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
