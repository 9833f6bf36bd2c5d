"""A repository as fleets for Flux are: a root, applications by namespace, shared sources."""

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).parents[1] / "testdata" / "mixedfleet"


def write(directory: Path, **namespaces: str) -> Path:
    """Copy the repository, with other names for its namespaces ``media``, ``shop``, ``infra``."""
    copy = directory / "fleet"
    shutil.copytree(REPOSITORY, copy)
    for file in copy.rglob("*.yaml"):
        text = file.read_text()
        for old, new in namespaces.items():
            text = text.replace(f"namespace: {old}", f"namespace: {new}")
        file.write_text(text)
    return copy
