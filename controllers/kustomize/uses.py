"""Objects whose changes start a reconciliation of a Kustomization, except its dependencies."""

from controllers.applying.triggers import Used
from controllers.kustomize import inputs
from controllers.kustomize.sources import SourceReader
from crds.kustomize import Kustomization
from toolkit.errors import StalledError


def used(obj: Kustomization, reader: SourceReader) -> Used:
    """Return the ConfigMaps, Secrets and sources that a Kustomization names."""
    configs = tuple(inputs.references(obj))
    try:
        sources = tuple(ref for _, ref in reader.references(obj))
    except StalledError:  # The reconciliation reports an unserved kind.
        return Used(configs=configs)
    return Used(configs=configs, sources=sources)
