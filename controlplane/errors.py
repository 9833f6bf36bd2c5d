"""What can go wrong with the embedded control plane.

::

    PenstockError
    └── ControlPlaneError           base; carries a message a user can act on
        ├── BuildError              a program could not be found or built
        ├── NodeUnavailableError    a real node cannot run on this machine, or not for this user
        ├── InstanceRunningError    the name is taken by a running instance
        └── ComponentDiedError      a program of a running instance ended by itself
"""

from toolkit.errors import PenstockError


class ControlPlaneError(PenstockError):
    """The control plane cannot be built, started or reached."""

    default_reason = "ControlPlaneFailed"


class BuildError(ControlPlaneError):
    """A program of the control plane can neither be found nor built."""

    default_reason = "BuildFailed"


class NodeUnavailableError(ControlPlaneError):
    """This machine or this user cannot have a real node."""

    default_reason = "NodeUnavailable"


class InstanceRunningError(ControlPlaneError):
    """Another instance runs under this name."""

    default_reason = "InstanceRunning"


class ComponentDiedError(ControlPlaneError):
    """A component ended although nobody stopped it."""

    default_reason = "ComponentDied"
