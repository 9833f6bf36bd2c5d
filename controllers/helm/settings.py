"""Settings of the process that apply to every HelmRelease."""

from dataclasses import dataclass

from toolkit.kube.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that a reconciliation needs."""

    concurrent_ssa: int = 4
    retries_by_default: bool = False
    tracks_digests: bool = True

    @classmethod
    def of(cls, options: Options) -> "Settings":
        """Return the settings from flags; the feature gates are those of helm-controller 1.6."""
        gates = options.feature_gates
        return cls(
            concurrent_ssa=options.concurrent_ssa,
            retries_by_default=gates.get("DefaultToRetryOnFailure", False),
            tracks_digests=not gates.get("DisableChartDigestTracking", False),
        )
