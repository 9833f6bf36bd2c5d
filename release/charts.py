"""The Helm chart as a package, and as what a registry keeps of it: https://helm.sh/docs/topics/registries.

The same chart gives the same bytes: no names of users, no times.
"""

import gzip
import json
from pathlib import Path
from typing import Final

import yaml

from release import product, trees
from release.publishing import Blob
from release.trees import Node

CHART: Final = product.ROOT / "deploy" / "chart"
_NAME: Final = "penstock"
_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def package(directory: Path = CHART) -> bytes:
    """Return the chart as ``helm package`` would pack it."""
    tree = {
        f"{_NAME}/{path.relative_to(directory)}": Node(content=path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }
    return gzip.compress(trees.archive(tree), mtime=0)


def blobs(packed: bytes, directory: Path = CHART) -> tuple[Blob, Blob]:
    """Return the configuration, which is Chart.yaml, and the package."""
    about = yaml.safe_load((directory / "Chart.yaml").read_text())
    config = json.dumps(about, sort_keys=True).encode()
    return Blob(media_type=_CONFIG, content=config), Blob(media_type=_CONTENT, content=packed)
