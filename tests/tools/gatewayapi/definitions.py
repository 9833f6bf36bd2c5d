"""The definitions of the Gateway API, from its Go module, which ``go.mod`` pins."""

import functools
import json
import subprocess
from pathlib import Path
from typing import Final

import yaml

from controlplane import gotool
from toolkit.objects import Json

_MODULE: Final = "sigs.k8s.io/gateway-api"
_FOLDER: Final = Path("config/crd/standard")


@functools.cache
def definition(plural: str) -> Json:
    """Return the definition of one of its kinds."""
    command = [gotool.find(), "mod", "download", "-json", _MODULE]
    here = Path(__file__).parent
    told = subprocess.run(command, cwd=here, check=True, capture_output=True).stdout
    folder = Path(json.loads(told)["Dir"]) / _FOLDER
    text = (folder / f"gateway.networking.k8s.io_{plural}.yaml").read_text()
    found: Json = yaml.load(text, Loader=yaml.CSafeLoader)
    return found
