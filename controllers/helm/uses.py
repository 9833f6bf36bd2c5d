"""What a HelmRelease uses beside its dependencies, for waking it."""

from controllers.applying.triggers import Used
from controllers.helm import inputs
from controllers.helm.sources import ChartReader
from crds.helm import HelmRelease
from toolkit.errors import StalledError


def used(obj: HelmRelease, reader: ChartReader) -> Used:
    """Return the ConfigMaps, Secrets and sources that a HelmRelease names."""
    configs = tuple(inputs.references(obj))
    try:
        sources = (reader.reference(obj),)
    except StalledError:  # an unserved kind is reported by the reconcile
        return Used(configs=configs)
    granting = reader.granting(obj)
    return Used(configs=configs, sources=(*sources, *((granting,) if granting else ())))
