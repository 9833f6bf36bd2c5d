"""Objects whose changes start a reconciliation of a HelmRelease, except its dependencies."""

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
    except StalledError:  # The reconciliation reports an unserved kind.
        return Used(configs=configs)
    others = (reader.other_chart(obj), reader.granting(obj))
    return Used(configs=configs, sources=(*sources, *(each for each in others if each)))
