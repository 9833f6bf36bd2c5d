"""Which version this is, as ``/version`` tells it (``apimachinery/pkg/version``)."""

import platform
from importlib import metadata
from typing import Final

from toolkit.objects import Json

_UNKNOWN: Final = "0.0.0"


def info() -> Json:
    """Return the ``version.Info``; without the distribution's metadata the version is 0.0.0."""
    try:
        version = metadata.version("penstock")
    except metadata.PackageNotFoundError:
        version = _UNKNOWN
    major, minor, *_ = version.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
