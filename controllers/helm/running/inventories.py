"""The objects of a release that ``status.inventory`` lists."""

import msgspec

from crds.helm_status import HelmReleaseStatus
from toolkit import inventory
from toolkit.errors import StalledError
from toolkit.objects import ObjectRef


def listed(status: HelmReleaseStatus) -> tuple[ObjectRef, ...]:
    """Return the objects in ``status.inventory``.

    After the uninstallation these are the objects that are still being deleted. Entries that cannot
    be decoded are ignored, so that they do not block the deletion of the HelmRelease.
    """
    found = status.inventory
    try:
        return inventory.decode(msgspec.to_builtins(found.entries) if found else ())
    except StalledError:
        return ()
